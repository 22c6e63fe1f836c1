// SPDX-License-Identifier: GPL-2.0

//! Tests of the swap-in policy as compiled for the kernel. The host tests check with arbitrary
//! evidence what it must never do: `kunit/host/tests/policy.rs`.

use crate::swapin::policy::{
    plan,
    uniform_order,
    Evidence,
    Hint,
    How,
    Inquiry,
    Limits,
    Record,
    Source,
    Used,
    Why,
    FIRST_ORDER,
    MAX_ORDER,
    NEAR, //
};
use kernel::prelude::*;

/// The surroundings of a fault, as [`Inquiry`] reports them.
#[derive(Clone, Copy)]
struct Around {
    least_order: u32,
    max_order: u32,
    any_slow: bool,
    near: u32,
    uniform: u32,
}

impl Around {
    /// Returns surroundings that are all in one place, and were not used.
    fn up_to(max_order: u32) -> Self {
        Self {
            least_order: 0,
            max_order,
            any_slow: false,
            near: 0,
            uniform: MAX_ORDER,
        }
    }
}

impl Inquiry for Around {
    fn near(&mut self, _down: bool) -> u32 {
        self.near
    }

    fn limits(&mut self) -> Limits {
        Limits {
            least: self.least_order,
            most: self.max_order,
        }
    }

    fn any_slow(&mut self) -> bool {
        self.any_slow
    }

    fn uniform(&mut self, max: u32) -> u32 {
        self.uniform.min(max)
    }
}

fn fault(record: Record, page: u64) -> Evidence {
    Evidence {
        page,
        record,
        used: None,
        hint: Hint::None,
        source: Source::Memory,
        large: true,
        file: false,
        bypass: true,
        zswap: true,
    }
}

#[kunit_tests(rust_vswap_swapin)]
mod tests {
    use super::*;

    /// The policy detects a sequence after some faults, and raises the order while folios are used.
    #[test]
    fn folios_grow_with_a_sequence() {
        let mut around = Around::up_to(9);
        let (mut record, mut page, mut faults, mut largest) = (Record::default(), 4096u64, 0, 0);
        while page < 4096 + 8192 {
            let mut evidence = fault(record, page);
            evidence.used = record.probe().map(|_| Used {
                touched: 16,
                sampled: 16,
            });
            let plan = plan(&evidence, &mut around);
            record = plan.record;
            faults += 1;
            if let How::Large(order) = plan.how {
                let first = page >> order << order;
                record = record.settle(first, order);
                page = first + (1 << order);
                largest = order.max(largest);
                assert_eq!(plan.why, Why::Sequence);
                assert!(faults > 4);
            } else {
                page += 1;
            }
        }
        assert_eq!(largest, 9);
        assert!(faults < 100);
    }

    /// Waste lowers the order of folios, and `MADV_RANDOM` prevents large ones.
    #[test]
    fn waste_is_remembered() {
        let mut around = Around::up_to(9);
        let mut hinted = fault(Record::default(), 160);
        hinted.hint = Hint::Sequential;
        let first = plan(&hinted, &mut around);
        assert_eq!(first.how, How::Large(FIRST_ORDER));
        let record = first.record.settle(160, FIRST_ORDER);
        assert!(record.probe().is_some());

        hinted.record = record;
        hinted.page = 176;
        hinted.used = Some(Used {
            touched: 1,
            sampled: 16,
        });
        assert_eq!(plan(&hinted, &mut around).how, How::Large(FIRST_ORDER - 1));
        hinted.hint = Hint::Random;
        assert_eq!(plan(&hinted, &mut around).how, How::Single);
    }

    /// Pages on a slow device are read ahead. Compressed pages are swapped in alone, unless faults
    /// are adjacent and a neighbour may be on a slow device.
    #[test]
    fn only_slow_devices_are_read_ahead_of() {
        let mut around = Around {
            any_slow: true,
            ..Around::up_to(0)
        };
        let mut evidence = fault(Record::default(), 4096);
        let far = plan(&evidence, &mut around);
        assert_eq!((far.how, far.why), (How::Single, Why::Far));
        evidence.record = far.record;
        evidence.page = 4097;
        let next = plan(&evidence, &mut around);
        assert_eq!((next.how, next.why), (How::ReadAhead, Why::SlowAround));
        evidence.source = Source::Fast;
        assert_eq!(plan(&evidence, &mut around).how, How::Single);
        evidence.source = Source::Slow;
        assert_eq!(plan(&evidence, &mut around).why, Why::Slow);
    }

    /// Returns the order of the planned folio, or 0 for a single page and for readahead.
    fn order(evidence: &Evidence, mut around: Around) -> u32 {
        match plan(evidence, &mut around).how {
            How::Large(order) => order,
            _ => 0,
        }
    }

    /// Whatever the record says, no order is out of bounds or larger than the uniform range. No
    /// order is large with `MADV_RANDOM`. More evidence for locality never lowers the order.
    #[test]
    fn no_order_is_out_of_bounds() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        let mut large = 0;

        for n in 0..20_000u64 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            let record = Record::decode(bits);
            // Try pages at or near the recorded page, and arbitrary pages.
            let page = if n % 8 == 0 {
                bits >> 7
            } else {
                (bits >> 20) + n % 5
            };
            let mut evidence = fault(record, page);
            evidence.hint = [Hint::None, Hint::Sequential, Hint::Random][(n % 3) as usize];
            evidence.source = [Source::Memory, Source::Fast, Source::Slow][(n / 3 % 3) as usize];
            evidence.large = n % 11 != 0;
            evidence.file = n % 7 == 0;
            evidence.bypass = n % 13 != 0;
            let most = (n / 9 % 10) as u32;
            let around = Around {
                least_order: most / 2,
                any_slow: n % 5 == 0,
                near: (n % u64::from(NEAR + 1)) as u32,
                uniform: (n / 17 % 10) as u32,
                ..Around::up_to(most)
            };

            let got = order(&evidence, around);
            large += u32::from(got != 0);
            assert!(got <= around.max_order && got <= around.uniform);
            assert!(got == 0 || got >= around.least_order);
            let never =
                !evidence.large || evidence.hint == Hint::Random || evidence.source == Source::Slow;
            assert!(got == 0 || !never);

            let near = Around {
                near: NEAR,
                ..around
            };
            let uniform = around.uniform + 1;
            assert!(order(&evidence, near) >= got);
            assert!(order(&evidence, Around { uniform, ..around }) >= got);
            if evidence.hint == Hint::None {
                evidence.hint = Hint::Sequential;
                assert!(order(&evidence, around) >= got);
            }
        }
        // Check that the loop has tried large folios.
        assert!(large > 1000);
    }

    /// The order of a uniform range ends at the first offset that differs.
    #[test]
    fn a_range_ends_where_it_differs() {
        assert_eq!(uniform_order(5, 4, |_| true), 4);
        assert_eq!(uniform_order(5, 4, |offset| offset != 4), 0);
        assert_eq!(uniform_order(5, 4, |offset| offset != 7), 1);
        assert_eq!(uniform_order(5, 4, |offset| offset < 8), 3);
    }
}
