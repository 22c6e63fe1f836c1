// SPDX-License-Identifier: GPL-2.0

//! Tests of the swap-in policy as the kernel has compiled it. What it must never do is tried with
//! arbitrary evidence on the host: `kunit/host/tests/swapin.rs`.

use crate::swapin::{
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
    FIRST_ORDER, //
};
use kernel::prelude::*;

/// All around is compressed, and nothing of it was used.
struct Around {
    max_order: u32,
    any_slow: bool,
}

impl Inquiry for Around {
    fn near(&mut self, _down: bool) -> u32 {
        0
    }

    fn limits(&mut self) -> Limits {
        Limits {
            least: 0,
            most: self.max_order,
        }
    }

    fn any_slow(&mut self) -> bool {
        self.any_slow
    }

    fn uniform(&mut self, max: u32) -> u32 {
        max
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
    }
}

#[kunit_tests(rust_vswap_swapin)]
mod tests {
    use super::*;

    /// A sequence is seen after some faults, and its folios grow while they are used.
    #[test]
    fn folios_grow_with_a_sequence() {
        let mut around = Around {
            max_order: 9,
            any_slow: false,
        };
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

    /// What nobody used makes them smaller, and then it takes more to begin.
    #[test]
    fn waste_is_remembered() {
        let mut around = Around {
            max_order: 9,
            any_slow: false,
        };
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

    /// What is on a slow device is read ahead, and alone is what is compressed.
    #[test]
    fn only_slow_devices_are_read_ahead_of() {
        let mut around = Around {
            max_order: 0,
            any_slow: true,
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

    /// An aligned range around a page is all alike, or only a part of it.
    #[test]
    fn a_range_ends_where_it_differs() {
        assert_eq!(uniform_order(5, 4, |_| true), 4);
        assert_eq!(uniform_order(5, 4, |offset| offset != 4), 0);
        assert_eq!(uniform_order(5, 4, |offset| offset != 7), 1);
        assert_eq!(uniform_order(5, 4, |offset| offset < 8), 3);
    }
}
