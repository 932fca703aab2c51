//! What one evaluation may make: no value too large or too deep, and not too much in all.
//!
//! Fuel counts instructions of the engine, but one instruction can double a text. So each operation that makes or walks a
//! value pays for its size here, and peak memory and time follow from what was paid. The meter is kept per thread, as
//! [`super::record`] is: an evaluation is synchronous. Sizes are counted, not clocks: the same inputs give the same answer.

use super::TemplateError;
use super::tree;
use minijinja::value::{DynObject, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one value.
const MAX_VALUE: u64 = 16 << 20;
/// Bytes of all values that one evaluation makes or walks.
const MAX_EVALUATION: u64 = 256 << 20;
/// Bytes that an evaluation may use before they count for the project: what ordinary recipes use stays far below.
const UNCOUNTED: u64 = 4 << 20;
/// Bytes of all evaluations of a project above those.
const MAX_PROJECT: u64 = 16 << 30;
/// What a step of the engine counts for the project, in bytes: loops that make nothing take time as well.
const STEP: u64 = 16;
/// Levels of one value: walking and dropping it recurses.
const MAX_LEVELS: usize = 128;
/// What a value weighs beside its text.
pub(super) const CELL: u64 = 64;
/// The longest text of a number: `1e308` is written out.
const NUMBER: u64 = 320;

/// Why an evaluation was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    Value,
    Levels,
    Evaluation,
    Project,
    Namespace,
}

impl Excess {
    pub fn message(self) -> String {
        match self {
            Self::Value => "the template makes a value of more than 16 MiB".into(),
            Self::Levels => format!("the template makes a value of more than {MAX_LEVELS} levels"),
            Self::Evaluation => "the template takes too long".into(),
            Self::Project => "the templates of the project take too long together".into(),
            Self::Namespace => "a namespace cannot be part of a value".into(),
        }
    }

    pub fn hint(self) -> &'static str {
        match self {
            Self::Value => "look for a loop, a width or a count that makes it grow",
            Self::Levels => "look for a loop that puts a value into itself",
            Self::Evaluation => "loop over less, and write text out rather than gather it in a variable",
            Self::Project => "look for templates that loop over much, and move what is common to a parameter",
            Self::Namespace => "put the values of the namespace there",
        }
    }

    /// Returns it as what is wrong in a template.
    pub fn error(self, range: Option<std::ops::Range<usize>>) -> TemplateError {
        TemplateError { message: self.message(), range, hint: Some(self.hint().into()), undefined: false }
    }
}

/// What the evaluations of one project used in all.
#[derive(Debug, Default)]
pub(in crate::config) struct Usage(AtomicU64);

impl Usage {
    fn add(&self, used: u64) {
        self.0.fetch_add(used.saturating_sub(UNCOUNTED), Ordering::Relaxed);
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MAX_PROJECT
    }

    /// The usage of a project that may only use so many bytes more.
    #[cfg(test)]
    pub(super) fn with_left(bytes: u64) -> Self {
        Self(AtomicU64::new(MAX_PROJECT - bytes))
    }
}

thread_local! {
    static USED: Cell<u64> = const { Cell::new(0) };
    static STEPS: Cell<u64> = const { Cell::new(0) };
    static EXCESS: Cell<Option<Excess>> = const { Cell::new(None) };
}

/// Runs `work` within the limits and returns which of them ended it.
pub(super) fn limited<T>(usage: &Usage, work: impl FnOnce() -> T) -> (T, Option<Excess>) {
    USED.set(0);
    STEPS.set(0);
    EXCESS.set(usage.is_spent().then_some(Excess::Project));
    let result = work();
    usage.add(USED.get().max(STEPS.get() * STEP));
    (result, EXCESS.get())
}

/// Notes how many steps the engine took so far. After the last loop there are at most as many as the text is long.
pub(super) fn note_steps(steps: u64) {
    STEPS.set(steps);
}

/// Ends the evaluation.
pub(super) fn refuse<T>(excess: Excess) -> Result<T, Error> {
    if EXCESS.get().is_none() {
        EXCESS.set(Some(excess));
    }
    Err(Error::new(ErrorKind::InvalidOperation, excess.message()))
}

/// Pays for an operation that makes or walks so much.
pub(super) fn pay(bytes: u64) -> Result<(), Error> {
    let used = USED.get().saturating_add(bytes);
    USED.set(used);
    match used > MAX_EVALUATION || EXCESS.get().is_some() {
        true => refuse(Excess::Evaluation),
        false => Ok(()),
    }
}

/// Pays for a value that an operation is about to make.
pub(super) fn pay_for_new(bytes: u64) -> Result<(), Error> {
    match bytes > MAX_VALUE {
        true => refuse(Excess::Value),
        false => pay(bytes),
    }
}

/// Weighs a value and pays for it. What is computed when it is read is computed now, once: such values would otherwise
/// pile up, each reading the one below it.
pub(super) fn admit(value: Value) -> Result<Value, Error> {
    let lazy = is_lazy(&value) && tree::own_weight(&value).is_none();
    let value = match lazy {
        true => gather(&value)?,
        false => value,
    };
    pay_for_new(weigh(&value)?.bytes)?;
    Ok(value)
}

/// Pays for a value that is written out: twice, as the text that it joins is copied when it grows.
pub(super) fn pay_for_emitted(value: &Value) -> Result<(), Error> {
    pay(2 * weigh(value)?.bytes)
}

/// Pays for a value that a namespace is about to keep.
pub(super) fn keep(value: Value) -> Result<Value, Error> {
    let mut scale = Scale::default();
    scale.put(&value, 1)?;
    pay(scale.0.bytes)?;
    Ok(value)
}

/// Lists that are put together are kept by the engine as their parts.
fn is_lazy(value: &Value) -> bool {
    let merged = || value.as_object().is_some_and(|object| object.type_name().ends_with("::MergeSeq"));
    value.kind() == ValueKind::Iterable || value.kind() == ValueKind::Seq && merged()
}

fn gather(value: &Value) -> Result<Value, Error> {
    let mut items = Vec::new();
    for item in value.try_iter()? {
        if items.len() as u64 > MAX_VALUE / CELL {
            return refuse(Excess::Value);
        }
        items.push(item);
    }
    Ok(Value::from(items))
}

/// What a value comes to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    pub bytes: u64,
    pub levels: u64,
}

/// Weighs a value as it is written out: what it holds twice counts twice.
pub(super) fn weigh(value: &Value) -> Result<Weight, Error> {
    let mut scale = Scale::default();
    scale.put(value, 0)?;
    Ok(scale.0)
}

#[derive(Default)]
struct Scale(Weight);

impl Scale {
    fn put(&mut self, value: &Value, level: usize) -> Result<(), Error> {
        if level > MAX_LEVELS {
            return refuse(Excess::Levels);
        }
        self.0.levels = self.0.levels.max(level as u64);
        self.add(CELL)?;
        if let Some(own) = tree::own_weight(value) {
            return self.add(own);
        }
        if let Some(text) = value.as_str() {
            return self.add(text.len() as u64);
        }
        match value.kind() {
            ValueKind::Number if !value.is_integer() => self.add(NUMBER),
            ValueKind::Bytes => self.add(value.len().unwrap_or_default() as u64),
            ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.try_for_each(|item| self.put(&item, level + 1)),
            ValueKind::Map if level > 0 && is_namespace(value) => refuse(Excess::Namespace),
            ValueKind::Map => value.try_iter()?.try_for_each(|key| {
                self.put(&key, level + 1)?;
                self.put(&value.get_item(&key)?, level + 1)
            }),
            _ => Ok(()),
        }
    }

    fn add(&mut self, bytes: u64) -> Result<(), Error> {
        self.0.bytes += bytes;
        match self.0.bytes > MAX_VALUE {
            true => refuse(Excess::Value),
            false => Ok(()),
        }
    }
}

/// A namespace that held itself would have no end, and one put below another again and again no bounded depth.
fn is_namespace(value: &Value) -> bool {
    value.as_object().map(DynObject::type_name).is_some_and(|name| name.ends_with("::Namespace"))
}
