//! Meters compiled code: adds a payment to each instruction that creates or walks a value.
//!
//! Operators of the engine are neither filters nor functions and cannot be replaced in an environment. The compiled
//! instructions are therefore copied, with calls of our own filters inserted. Filters, tests and functions pay by
//! themselves ([`super::guarded`]).

use super::metered_filters::{
    ADMIT_FILTER, CHANGED_FILTER, CONCAT_FILTER, EQUALITY_FILTER, KEEP_FILTER, ORDER_FILTER, REPEAT_FILTER,
    SEARCH_FILTER, SLICE_FILTER, SPLIT_FILTER, STEPS_FILTER, SUBSCRIPT_FILTER,
};
use minijinja::machinery::{Instruction as I, Instructions};
use minijinja::value::Value;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Copies `code` and inserts the payments.
pub(super) fn meter_code(code: &Instructions<'_>) -> Instructions<'static> {
    let mut into = Instructions::new("template", "");
    let mut places = Vec::new();
    let mut end = 0;
    while let Some(instruction) = code.get(places.len() as u32) {
        let at = places.len() as u32;
        places.push(end);
        for instruction in add_payments(instruction) {
            end = 1 + match code.get_span(at) {
                Some(span) => into.add_with_span(instruction, span),
                None => into.add_with_line(instruction, code.get_line(at).unwrap_or_default() as u16),
            };
        }
    }
    places.push(end);
    retarget_jumps(&mut into, &places);
    into
}

/// Adjusts jumps to the new positions of their targets.
fn retarget_jumps(code: &mut Instructions<'static>, places: &[u32]) {
    let mut at = 0;
    while let Some(instruction) = code.get_mut(at) {
        if let I::Iterate(to) | I::Jump(to) | I::JumpIfFalse(to) | I::JumpIfFalseOrPop(to) | I::JumpIfTrueOrPop(to) =
            instruction
        {
            *to = places.get(*to as usize).copied().unwrap_or(*to);
        }
        at += 1;
    }
}

/// Returns an instruction together with its payments.
fn add_payments(instruction: &I<'_>) -> Vec<I<'static>> {
    let own = to_owned_instruction(instruction);
    match instruction {
        // The result is at most as large as the sum of its parts, so it can be weighed afterwards.
        I::Add | I::BuildMap(_) | I::BuildList(_) | I::BuildTuple(_) | I::EndCapture | I::CallFunction(..) => {
            vec![own, build_filter_call(ADMIT_FILTER, 1)]
        }
        I::StringConcat => wrap_operator(CONCAT_FILTER, 2, own, true),
        I::Slice => wrap_operator(SLICE_FILTER, 4, own, true),
        I::Mul => wrap_operator(REPEAT_FILTER, 2, own, true),
        I::Eq | I::Ne => wrap_operator(EQUALITY_FILTER, 2, own, false),
        I::Gt | I::Gte | I::Lt | I::Lte => wrap_operator(ORDER_FILTER, 2, own, false),
        I::In => wrap_operator(SEARCH_FILTER, 2, own, false),
        // The engine does not tell which operator of a chain (`a < b < c`) it is.
        I::CompareAndPreserve(_) => wrap_operator(ORDER_FILTER, 2, own, false),
        I::GetItem => wrap_operator(SUBSCRIPT_FILTER, 2, own, false),
        I::CallMethod("changed", Some(args)) => wrap_operator(CHANGED_FILTER, *args, own, false),
        I::PushLoop(_) | I::UnpackList(_) | I::FastRecurse => vec![build_filter_call(SPLIT_FILTER, 1), own],
        I::SetAttr(_) => vec![I::Swap, build_filter_call(KEEP_FILTER, 1), I::Swap, own],
        // Counts each iteration of a loop. Code without loops ends soon.
        I::Iterate(_) => vec![I::LoadConst(Value::from(())), build_filter_call(STEPS_FILTER, 1), I::DiscardTop, own],
        // Raw text may be captured repeatedly. It is emitted through the formatter, which pays for it.
        I::EmitRaw(_) => vec![own, I::Emit],
        _ => vec![own],
    }
}

/// Returns an operator after a filter that receives its operands and returns them in reverse order.
fn wrap_operator(filter: &'static str, operands: u16, own: I<'static>, creates: bool) -> Vec<I<'static>> {
    let mut code = vec![build_filter_call(filter, operands), I::UnpackList(operands.into()), own];
    code.extend(creates.then(|| build_filter_call(ADMIT_FILTER, 1)));
    code
}

fn build_filter_call(filter: &'static str, args: u16) -> I<'static> {
    I::ApplyFilter(filter, Some(args), !0)
}

/// Copies an instruction without references to the source text.
fn to_owned_instruction(instruction: &I<'_>) -> I<'static> {
    match instruction.clone() {
        I::EmitRaw(text) => I::LoadConst(Value::from(text)),
        I::StoreLocal(name) => I::StoreLocal(intern_name(name)),
        I::Lookup(name) => I::Lookup(intern_name(name)),
        I::GetAttr(name) => I::GetAttr(intern_name(name)),
        I::SetAttr(name) => I::SetAttr(intern_name(name)),
        I::ApplyFilter(name, args, id) => I::ApplyFilter(intern_name(name), args, id),
        I::PerformTest(name, args, id) => I::PerformTest(intern_name(name), args, id),
        I::CallFunction(name, args) => I::CallFunction(intern_name(name), args),
        I::CallMethod(name, args) => I::CallMethod(intern_name(name), args),
        I::GetItem => I::GetItem,
        I::Slice => I::Slice,
        I::LoadConst(value) => I::LoadConst(value),
        I::BuildMap(count) => I::BuildMap(count),
        I::BuildKwargs(count) => I::BuildKwargs(count),
        I::MergeKwargs(count) => I::MergeKwargs(count),
        I::BuildList(count) => I::BuildList(count),
        I::BuildTuple(count) => I::BuildTuple(count),
        I::UnpackList(count) => I::UnpackList(count),
        I::UnpackLists(count) => I::UnpackLists(count),
        I::Add => I::Add,
        I::Sub => I::Sub,
        I::Mul => I::Mul,
        I::Div => I::Div,
        I::IntDiv => I::IntDiv,
        I::Rem => I::Rem,
        I::Pow => I::Pow,
        I::Neg => I::Neg,
        I::Eq => I::Eq,
        I::Ne => I::Ne,
        I::Gt => I::Gt,
        I::Gte => I::Gte,
        I::Lt => I::Lt,
        I::Lte => I::Lte,
        I::Not => I::Not,
        I::StringConcat => I::StringConcat,
        I::In => I::In,
        I::CompareAndPreserve(op) => I::CompareAndPreserve(op),
        I::Emit => I::Emit,
        I::PushLoop(flags) => I::PushLoop(flags),
        I::PushWith => I::PushWith,
        I::Iterate(to) => I::Iterate(to),
        I::PushDidNotIterate => I::PushDidNotIterate,
        I::PopFrame => I::PopFrame,
        I::PopLoopFrame => I::PopLoopFrame,
        I::Jump(to) => I::Jump(to),
        I::JumpIfFalse(to) => I::JumpIfFalse(to),
        I::JumpIfFalseOrPop(to) => I::JumpIfFalseOrPop(to),
        I::JumpIfTrueOrPop(to) => I::JumpIfTrueOrPop(to),
        I::PushAutoEscape => I::PushAutoEscape,
        I::PopAutoEscape => I::PopAutoEscape,
        I::BeginCapture(mode) => I::BeginCapture(mode),
        I::EndCapture => I::EndCapture,
        I::CallObject(args) => I::CallObject(args),
        I::DupTop => I::DupTop,
        I::DiscardTop => I::DiscardTop,
        I::FastRecurse => I::FastRecurse,
        I::Swap => I::Swap,
    }
}

static INTERNED_NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

/// Returns a name with static lifetime. Leaks each name once, regardless of how many templates use it.
fn intern_name(name: &str) -> &'static str {
    let mut names = INTERNED_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(Box::from(name));
    names.insert(kept);
    kept
}
