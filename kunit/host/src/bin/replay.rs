// SPDX-License-Identifier: GPL-2.0

//! Makes the decisions of a recorded workload again, with the policy as it is in
//! `rust/mm/swapin/policy.rs` now: reads lines of the tracepoint `vswap_swapin_plan` from standard
//! input.
//!
//! A decision that differs is printed, the first ten of them. The exit status is 1 then.

use std::{
    collections::HashMap,
    io::{self, BufRead},
    process::ExitCode,
};
use vswap_host::policy::*;

/// The fields of a line, if it is one of ours.
fn fields(line: &str) -> Option<HashMap<&str, &str>> {
    let (_, rest) = line.split_once("vswap_swapin_plan:")?;
    Some(
        rest.split_whitespace()
            .filter_map(|word| word.split_once('='))
            .collect(),
    )
}

/// What had been found out when the decision was made.
struct Recorded {
    near: u32,
    limits: OrderLimits,
    any_slow: bool,
    uniform: u32,
}

impl Inquiry for Recorded {
    fn near(&mut self, _down: bool) -> u32 {
        self.near
    }

    fn limits(&mut self) -> OrderLimits {
        self.limits
    }

    fn any_slow(&mut self) -> bool {
        self.any_slow
    }

    fn uniform(&mut self, max: u32) -> u32 {
        self.uniform.min(max)
    }
}

/// A decision, in the numbers of the tracepoint.
#[derive(PartialEq, Eq, Debug)]
struct Decision {
    how: u32,
    order: u32,
    why: u32,
    next: u64,
}

/// A decision, made again: what it was, and what it is.
fn replay(line: &str) -> Option<(Decision, Decision)> {
    let fields = fields(line)?;
    let number = |name: &str| fields.get(name)?.parse::<u32>().ok();
    let bits = |name: &str| u64::from_str_radix(fields.get(name)?, 16).ok();
    let flags = number("flags")?;
    let sampled = number("sampled")?;
    let evidence = Evidence {
        page: bits("page")?,
        record: FaultHistory::decode(bits("record")?),
        used: (sampled != 0).then_some(UsedPages {
            touched: number("touched")?,
            sampled,
        }),
        hint: match number("hint")? {
            1 => Hint::Sequential,
            2 => Hint::Random,
            _ => Hint::None,
        },
        source: match number("source")? {
            0 => Source::Memory,
            1 => Source::Fast,
            _ => Source::Slow,
        },
        large: flags & 8 != 0,
        file: flags & 2 != 0,
        bypass: flags & 4 != 0,
        zswap: flags & 16 != 0,
    };
    let mut recorded = Recorded {
        near: number("near")?,
        limits: OrderLimits {
            least: number("least")?,
            most: number("most")?,
        },
        any_slow: flags & 1 != 0,
        uniform: number("uniform")?,
    };
    let plan = plan(&evidence, &mut recorded);
    let (how, order) = match plan.how {
        PlanKind::ReadAhead => (0, 0),
        PlanKind::Single => (1, 0),
        PlanKind::Large(order) => (2, order),
    };
    let was = Decision {
        how: number("how")?,
        order: number("order")?,
        why: number("why")?,
        next: bits("next")?,
    };
    let is = Decision {
        how,
        order,
        why: plan.why as u32,
        next: plan.record.encode(),
    };
    Some((was, is))
}

fn main() -> ExitCode {
    let (mut decisions, mut large, mut differ) = (0u64, 0u64, 0u64);
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some((was, is)) = replay(&line) else {
            continue;
        };
        decisions += 1;
        large += u64::from(is.how == 2);
        if was != is {
            differ += 1;
            if differ <= 10 {
                println!("{}\n  was {was:x?}\n  is  {is:x?}", line.trim());
            }
        }
    }
    println!("{decisions} decisions, {large} of them for large folios, {differ} differ");
    if decisions == 0 {
        println!("no line of the tracepoint vswap_swapin_plan was read");
    }
    ExitCode::from(u8::from(differ != 0 || decisions == 0))
}
