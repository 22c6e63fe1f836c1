// SPDX-License-Identifier: GPL-2.0

//! Tests of `rust/mm/vswap/lookup.rs`, step by step: what it reads, and in which order.
//!
//! `loom.rs` shows that this is enough for any interleaving.

use std::cell::Cell;
use vswap_host::um::{
    lookup::cached,
    swap_table::{pfn_of_word, Count, Flags, Pfn, Shadow, State},
};

/// What the lookup asks for, in order, and the answers.
#[derive(Clone, Copy)]
enum Step {
    Peek(State),
    /// Tries to take a reference, with the result.
    Get(u64, bool),
    /// Asks whether the frame still belongs to the folio of the reference, with the answer.
    Is(u64, bool),
    Put(u64),
}
use Step::*;

/// A reference, which is put when it is dropped.
struct Ref<'a> {
    script: &'a Script,
    pfn: u64,
}

impl Drop for Ref<'_> {
    fn drop(&mut self) {
        match self.script.step() {
            Put(pfn) => assert_eq!(self.pfn, pfn),
            _ => panic!("a reference is put too early"),
        }
    }
}

struct Script {
    steps: Vec<Step>,
    at: Cell<usize>,
}

impl Script {
    fn step(&self) -> Step {
        let at = self.at.get();
        self.at.set(at + 1);
        *self.steps.get(at).expect("one step too many")
    }
}

/// Runs a lookup with the answers of a script, to its end. Returns the folio that was found, whose
/// reference was put again.
fn lookup(steps: &[Step]) -> Option<u64> {
    let script = Script {
        steps: steps.to_vec(),
        at: Cell::new(0),
    };
    let found = cached(
        || match script.step() {
            Peek(state) => pfn_of_word(state.encode()),
            _ => panic!("a look too many"),
        },
        |pfn| match script.step() {
            Get(expected, there) => {
                assert_eq!(pfn.get(), expected);
                there.then(|| Ref {
                    script: &script,
                    pfn: expected,
                })
            }
            _ => panic!("a reference too many"),
        },
        |folio, pfn| match script.step() {
            Is(expected, is) => {
                assert_eq!((folio.pfn, pfn.get()), (expected, expected));
                is
            }
            _ => panic!("a comparison too many"),
        },
    );
    let found = found.map(|folio| folio.pfn);
    assert_eq!(script.at.get(), steps.len(), "steps that were left out");
    found
}

fn flags(count: u8, zero: bool) -> Flags {
    Flags {
        count: Count::new(count).unwrap(),
        zero,
    }
}

fn folio(pfn: u64) -> State {
    State::Pfn {
        flags: flags(1, false),
        pfn: Pfn::new(pfn).unwrap(),
    }
}

fn no_folio() -> Vec<State> {
    let value = Shadow::new(5).unwrap();
    vec![
        State::Null,
        State::Bad,
        State::Shadow {
            flags: flags(1, true),
            value,
        },
        State::Shadow {
            flags: flags(0, false),
            value,
        },
    ]
}

#[test]
fn no_folio_is_none() {
    for state in no_folio() {
        assert_eq!(lookup(&[Peek(state)]), None);
    }
}

#[test]
fn a_folio_that_stays_is_found() {
    let steps = [
        Peek(folio(7)),
        Get(7, true),
        Peek(folio(7)),
        Is(7, true),
        Put(7),
    ];
    assert_eq!(lookup(&steps), Some(7));
}

#[test]
fn frame_zero_is_a_frame() {
    let steps = [
        Peek(folio(0)),
        Get(0, true),
        Peek(folio(0)),
        Is(0, true),
        Put(0),
    ];
    assert_eq!(lookup(&steps), Some(0));
}

#[test]
fn counts_and_flags_may_change_meanwhile() {
    let pfn = Pfn::new(7).unwrap();
    for flags in [flags(2, false), flags(0, true), flags(15, true)] {
        let now = State::Pfn { flags, pfn };
        let steps = [Peek(folio(7)), Get(7, true), Peek(now), Is(7, true), Put(7)];
        assert_eq!(lookup(&steps), Some(7));
    }
}

#[test]
fn a_frozen_folio_is_waited_for() {
    let steps = [
        Peek(folio(7)),
        Get(7, false),
        Peek(folio(7)),
        Get(7, false),
        Peek(folio(7)),
        Get(7, true),
        Peek(folio(7)),
        Is(7, true),
        Put(7),
    ];
    assert_eq!(lookup(&steps), Some(7));
}

#[test]
fn a_folio_that_is_freed_is_none() {
    for state in no_folio() {
        let steps = [Peek(folio(7)), Get(7, false), Peek(state)];
        assert_eq!(lookup(&steps), None);
    }
}

#[test]
fn what_is_not_the_folio_is_put_at_once() {
    // The reference is put before the word is read again, so that references do not accumulate.
    for state in no_folio() {
        let steps = [
            Peek(folio(7)),
            Get(7, true),
            Peek(state),
            Put(7),
            Peek(state),
        ];
        assert_eq!(lookup(&steps), None);
    }
}

#[test]
fn another_folio_is_found_in_its_place() {
    let steps = [
        Peek(folio(7)),
        Get(7, true),
        Peek(folio(8)),
        Put(7),
        Peek(folio(8)),
        Get(8, true),
        Peek(folio(8)),
        Is(8, true),
        Put(8),
    ];
    assert_eq!(lookup(&steps), Some(8));
}

#[test]
fn what_the_second_look_says_is_not_taken_on_trust() {
    // The word now names 8, but the reference is to 7: take one to 8 first.
    let steps = [
        Peek(folio(7)),
        Get(7, true),
        Peek(folio(8)),
        Put(7),
        Peek(State::Null),
    ];
    assert_eq!(lookup(&steps), None);
}

#[test]
fn a_folio_that_the_frame_is_not_of_any_more_is_put() {
    let steps = [
        Peek(folio(7)),
        Get(7, true),
        Peek(folio(7)),
        Is(7, false),
        Put(7),
        Peek(State::Null),
    ];
    assert_eq!(lookup(&steps), None);
}
