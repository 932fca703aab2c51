//! Limits of one evaluation: the size and depth of each value, and the total size of all values.
//!
//! The engine's fuel counts instructions, but one instruction can double a text. Each operation that creates or walks a
//! value therefore pays for its size here, which bounds peak memory and time. The meter is per thread, like
//! [`super::record`]: an evaluation is synchronous. It counts sizes and not time, so that the same inputs always give
//! the same result.

use super::value_cost::VALUE_COST_BYTES;
use super::{TemplateError, value_tree};
use minijinja::value::{DynObject, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum size of one value. Bytes.
const MAX_VALUE_BYTES: u64 = 16 << 20;
/// Maximum total size of the values that one evaluation creates or walks. Bytes.
const MAX_EVALUATION_BYTES: u64 = 256 << 20;
/// Bytes that an evaluation may use before they count for the project. Ordinary recipes stay far below.
const UNCOUNTED_BYTES: u64 = 4 << 20;
/// Maximum bytes of all evaluations of a project, each counted above [`UNCOUNTED_BYTES`].
const MAX_PROJECT_BYTES: u64 = 16 << 30;
/// Bytes that one step of the engine counts for the project: loops that create no values take time as well.
const STEP_COST_BYTES: u64 = 16;
/// Maximum depth of a value: walking and dropping it recurses.
const MAX_LEVELS: usize = 128;
/// Maximum length of a number as text: `1e308` is written out.
const NUMBER_TEXT_BYTES: u64 = 320;

/// The limit that ended an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    Value,
    Levels,
    Evaluation,
    Project,
    Namespace,
}

impl ExceededLimit {
    pub fn message(self) -> String {
        match self {
            Self::Value => "the template creates a value larger than 16 MiB".into(),
            Self::Levels => format!("the template creates a value with more than {MAX_LEVELS} levels"),
            Self::Evaluation => "the template takes too long".into(),
            Self::Project => "the templates of the project take too long in total".into(),
            Self::Namespace => "a namespace cannot be part of a value".into(),
        }
    }

    pub fn hint(self) -> &'static str {
        match self {
            Self::Value => "check for a loop, a width or a count that makes it grow",
            Self::Levels => "check for a loop that puts a value into itself",
            Self::Evaluation => "loop over fewer items, and write text out instead of collecting it in a variable",
            Self::Project => "check for templates that loop over many items, and move common values to a parameter",
            Self::Namespace => "use the values of the namespace instead",
        }
    }

    /// Converts it to an error of a template.
    pub fn to_template_error(self, range: Option<std::ops::Range<usize>>) -> TemplateError {
        TemplateError { message: self.message(), range, hint: Some(self.hint().into()), undefined: false }
    }
}

/// Total usage of the evaluations of one project.
#[derive(Debug, Default)]
pub(in crate::config) struct ProjectUsage(AtomicU64);

impl ProjectUsage {
    fn add_used(&self, used: u64) {
        self.0.fetch_add(used.saturating_sub(UNCOUNTED_BYTES), Ordering::Relaxed);
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MAX_PROJECT_BYTES
    }

    /// Returns the usage of a project that has `bytes` left.
    #[cfg(test)]
    pub(super) fn with_bytes_left(bytes: u64) -> Self {
        Self(AtomicU64::new(MAX_PROJECT_BYTES - bytes))
    }
}

thread_local! {
    static USED: Cell<u64> = const { Cell::new(0) };
    static STEPS: Cell<u64> = const { Cell::new(0) };
    static EXCESS: Cell<Option<ExceededLimit>> = const { Cell::new(None) };
}

/// Runs `work` within the limits. Returns its result and the limit that ended it, if any.
pub(super) fn run_limited<T>(usage: &ProjectUsage, work: impl FnOnce() -> T) -> (T, Option<ExceededLimit>) {
    USED.set(0);
    STEPS.set(0);
    EXCESS.set(usage.is_spent().then_some(ExceededLimit::Project));
    let result = work();
    usage.add_used(USED.get().max(STEPS.get() * STEP_COST_BYTES));
    (result, EXCESS.get())
}

/// Records how many steps the engine took so far. Steps after the last loop are not counted: there are at most as many
/// as the text is long.
pub(super) fn note_steps(steps: u64) {
    STEPS.set(steps);
}

/// Ends the evaluation with an error.
pub(super) fn exceed_limit<T>(excess: ExceededLimit) -> Result<T, Error> {
    if EXCESS.get().is_none() {
        EXCESS.set(Some(excess));
    }
    Err(Error::new(ErrorKind::InvalidOperation, excess.message()))
}

/// Pays for an operation that creates or walks `bytes`.
pub(super) fn pay_bytes(bytes: u64) -> Result<(), Error> {
    let used = USED.get().saturating_add(bytes);
    USED.set(used);
    match used > MAX_EVALUATION_BYTES || EXCESS.get().is_some() {
        true => exceed_limit(ExceededLimit::Evaluation),
        false => Ok(()),
    }
}

/// Pays for a value that an operation is about to create.
pub(super) fn pay_for_new(bytes: u64) -> Result<(), Error> {
    match bytes > MAX_VALUE_BYTES {
        true => exceed_limit(ExceededLimit::Value),
        false => pay_bytes(bytes),
    }
}

/// Weighs a value and pays for it. Computes lazy values now, once: otherwise they would form chains in which each value
/// reads the one below it.
pub(super) fn admit_value(value: Value) -> Result<Value, Error> {
    let lazy = is_lazy(&value) && value_tree::own_weight(&value).is_none();
    let value = match lazy {
        true => gather_items(&value)?,
        false => value,
    };
    pay_for_new(weigh_value(&value)?.bytes)?;
    Ok(value)
}

/// Pays for a value that is written to the output. It counts twice because the output is copied when it grows.
pub(super) fn pay_for_emitted(value: &Value) -> Result<(), Error> {
    pay_bytes(2 * weigh_value(value)?.bytes)
}

/// Pays for a value that is about to be stored in a namespace.
pub(super) fn pay_for_kept(value: Value) -> Result<Value, Error> {
    let mut scale = WeightCounter::default();
    scale.add_value(&value, 1)?;
    pay_bytes(scale.0.bytes)?;
    Ok(value)
}

/// Returns whether a value is lazy. The engine stores a concatenation of lists as its parts (`MergeSeq`).
fn is_lazy(value: &Value) -> bool {
    let merged = || value.as_object().is_some_and(|object| object.type_name().ends_with("::MergeSeq"));
    value.kind() == ValueKind::Iterable || value.kind() == ValueKind::Seq && merged()
}

fn gather_items(value: &Value) -> Result<Value, Error> {
    let mut items = Vec::new();
    for item in value.try_iter()? {
        if items.len() as u64 > MAX_VALUE_BYTES / VALUE_COST_BYTES {
            return exceed_limit(ExceededLimit::Value);
        }
        items.push(item);
    }
    Ok(Value::from(items))
}

/// The size and depth of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ValueWeight {
    pub bytes: u64,
    pub levels: u64,
}

/// Weighs a value as it is written out: shared parts count each time.
pub(super) fn weigh_value(value: &Value) -> Result<ValueWeight, Error> {
    let mut scale = WeightCounter::default();
    scale.add_value(value, 0)?;
    Ok(scale.0)
}

#[derive(Default)]
struct WeightCounter(ValueWeight);

impl WeightCounter {
    fn add_value(&mut self, value: &Value, level: usize) -> Result<(), Error> {
        if level > MAX_LEVELS {
            return exceed_limit(ExceededLimit::Levels);
        }
        self.0.levels = self.0.levels.max(level as u64);
        self.add_bytes(VALUE_COST_BYTES)?;
        if let Some(own) = value_tree::own_weight(value) {
            return self.add_bytes(own);
        }
        if let Some(text) = value.as_str() {
            return self.add_bytes(text.len() as u64);
        }
        match value.kind() {
            ValueKind::Number if !value.is_integer() => self.add_bytes(NUMBER_TEXT_BYTES),
            ValueKind::Bytes => self.add_bytes(value.len().unwrap_or_default() as u64),
            ValueKind::Seq | ValueKind::Iterable => {
                value.try_iter()?.try_for_each(|item| self.add_value(&item, level + 1))
            }
            ValueKind::Map if level > 0 && is_namespace(value) => exceed_limit(ExceededLimit::Namespace),
            ValueKind::Map => value.try_iter()?.try_for_each(|key| {
                self.add_value(&key, level + 1)?;
                self.add_value(&value.get_item(&key)?, level + 1)
            }),
            _ => Ok(()),
        }
    }

    fn add_bytes(&mut self, bytes: u64) -> Result<(), Error> {
        self.0.bytes += bytes;
        match self.0.bytes > MAX_VALUE_BYTES {
            true => exceed_limit(ExceededLimit::Value),
            false => Ok(()),
        }
    }
}

/// Returns whether a value is a namespace. Namespaces are not allowed inside values: they are mutable, so one could
/// contain itself or be nested without limit.
fn is_namespace(value: &Value) -> bool {
    value.as_object().map(DynObject::type_name).is_some_and(|name| name.ends_with("::Namespace"))
}
