//! Filters, tests and operators that pay for the values that they read and create, before they create them.

use super::eval_budget::{ValueWeight, admit_value, note_steps, pay_bytes, pay_for_kept, pay_for_new, weigh_value};
use super::secret_guard;
use super::value_cost::VALUE_COST_BYTES;
use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, filters, tests};

/// Filters that metered code calls in addition to its own instructions.
pub(super) const ADMIT_FILTER: &str = "forge:admit";
pub(super) const CHANGED_FILTER: &str = "forge:changed";
pub(super) const CONCAT_FILTER: &str = "forge:concat";
pub(super) const EQUALITY_FILTER: &str = "forge:equality";
pub(super) const KEEP_FILTER: &str = "forge:keep";
pub(super) const ORDER_FILTER: &str = "forge:order";
pub(super) const REPEAT_FILTER: &str = "forge:repeat";
pub(super) const SEARCH_FILTER: &str = "forge:search";
pub(super) const SLICE_FILTER: &str = "forge:slice";
pub(super) const SPLIT_FILTER: &str = "forge:split";
pub(super) const STEPS_FILTER: &str = "forge:steps";
pub(super) const SUBSCRIPT_FILTER: &str = "forge:subscript";

/// Divisor of the price of comparisons and searches, which create no value.
const MADE_PER_READ: u64 = 2;

macro_rules! named {
    ($from:ident: $($name:ident)*) => {
        [$((stringify!($name), Value::from_function($from::$name))),*]
    };
}

/// Adds the engine's filters, tests and operators with a payment before each.
pub(super) fn install_metered_filters(env: &mut Environment<'static>) {
    let built_in = named!(filters:
        abs attr batch bool capitalize chain default dictsort first float format groupby indent int items join last length
        lines list lower map max min reject rejectattr replace reverse round select selectattr slice sort split string sum
        title tojson trim unique upper zip
    );
    let aliases = [("count", Value::from_function(filters::length)), ("d", Value::from_function(filters::default))];
    for (name, filter) in built_in.into_iter().chain(aliases) {
        add_metered_filter(env, name, filter);
    }
    add_metered_tests(env);
    env.add_filter(ADMIT_FILTER, |value: ValueOrKwargs| admit_value(value.into_value()));
    env.add_filter(KEEP_FILTER, pay_for_kept);
    env.add_filter(STEPS_FILTER, |state: &mut State<'_, '_>, value: Value| {
        note_steps(state.fuel_levels().map_or(0, |(consumed, _)| consumed));
        value
    });
    env.add_filter(SPLIT_FILTER, |value: Value| secret_guard::guard_split(&value).map(|()| value));
    add_operator_filters(env);
}

/// Adds the filters that check the operands of an operator and return them in reverse order.
fn add_operator_filters(env: &mut Environment<'static>) {
    add_pair_filter(env, EQUALITY_FILTER, |left, right| {
        secret_guard::guard_equality(left, right)?;
        pay_for_comparison(left, right)
    });
    add_pair_filter(env, ORDER_FILTER, |left, right| {
        secret_guard::guard_order(left, right)?;
        pay_for_comparison(left, right)
    });
    add_pair_filter(env, SEARCH_FILTER, |item, container| {
        secret_guard::guard_search(item, container)?;
        pay_for_comparison(item, container)
    });
    add_pair_filter(env, CONCAT_FILTER, |left, right| {
        secret_guard::guard_written(left).and_then(|()| secret_guard::guard_written(right))
    });
    add_pair_filter(env, REPEAT_FILTER, pay_for_repetition);
    add_pair_filter(env, SUBSCRIPT_FILTER, |of, key| {
        secret_guard::guard_subscript(of, key)?;
        pay_for_read(weigh_value(key)?.bytes)
    });
    env.add_filter(SLICE_FILTER, |of: Value, start: Value, stop: Value, step: Value| {
        secret_guard::guard_split(&of).map(|()| vec![step, stop, start, of])
    });
    env.add_filter(CHANGED_FILTER, |values: Rest<Value>| {
        secret_guard::guard_loop_changed(&values[1..]).map(|()| values.iter().rev().cloned().collect::<Vec<_>>())
    });
}

fn add_pair_filter(
    env: &mut Environment<'static>,
    name: &'static str,
    check: impl Fn(&Value, &Value) -> Result<(), Error> + Send + Sync + 'static,
) {
    env.add_filter(name, move |left: Value, right: Value| check(&left, &right).map(|()| vec![right, left]));
}

/// Adds a filter that pays before and after it runs.
pub(super) fn add_metered_filter(env: &mut Environment<'static>, name: &'static str, filter: Value) {
    env.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        secret_guard::guard_filter(name, &args)?;
        pay_before_call(name, &args)?;
        admit_value(filter.call(state, &args)?)
    });
}

fn add_metered_tests(env: &mut Environment<'static>) {
    let walking = [
        ("divisibleby", Value::from_function(tests::is_divisibleby)),
        ("endingwith", Value::from_function(tests::is_endingwith)),
        ("startingwith", Value::from_function(tests::is_startingwith)),
        ("in", Value::from_function(tests::is_in)),
        ("lower", Value::from_function(tests::is_lower)),
        ("upper", Value::from_function(tests::is_upper)),
        ("sameas", Value::from_function(tests::is_sameas)),
    ];
    let equal = Value::from_function(tests::is_eq);
    let unequal = Value::from_function(tests::is_ne);
    let [less, at_most] = [Value::from_function(tests::is_lt), Value::from_function(tests::is_le)];
    let [more, at_least] = [Value::from_function(tests::is_gt), Value::from_function(tests::is_ge)];
    let comparing = [
        (&["eq", "equalto", "=="][..], equal),
        (&["ne", "!="], unequal),
        (&["lt", "lessthan", "<"], less),
        (&["le", "<="], at_most),
        (&["gt", "greaterthan", ">"], more),
        (&["ge", ">="], at_least),
    ];
    let comparing = comparing.into_iter().flat_map(|(names, test)| names.iter().map(move |name| (*name, test.clone())));
    for (name, test) in walking.into_iter().chain(comparing) {
        env.add_test(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            secret_guard::guard_test(name, &args)?;
            if let [left, right] = args.as_slice() {
                pay_for_comparison(left, right)?;
            } else {
                args.iter().try_for_each(|arg| pay_for_read(weigh_value(arg)?.bytes))?;
            }
            Ok::<bool, Error>(test.call(state, &args)?.is_true())
        });
    }
}

/// Pays for values that are walked but not created.
fn pay_for_read(bytes: u64) -> Result<(), Error> {
    pay_bytes(bytes / MADE_PER_READ)
}

/// Pays for a comparison, or for testing whether `right` contains `left`.
fn pay_for_comparison(left: &Value, right: &Value) -> Result<(), Error> {
    let simple = |value: &Value| value.as_str().is_none() && !is_container(value);
    match (left.as_str(), right.as_str()) {
        (Some(_), Some(text)) => pay_for_read(text.len() as u64 + 1),
        _ if is_container(right) => pay_for_read(weigh_value(right)?.bytes),
        _ if simple(left) || simple(right) || !is_container(left) => pay_for_read(VALUE_COST_BYTES),
        _ => pay_for_read(weigh_value(left)?.bytes),
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::Bytes)
}

/// Pays for `left * right` if one of them is a text or a list.
fn pay_for_repetition(left: &Value, right: &Value) -> Result<(), Error> {
    let grows = |value: &Value| value.as_str().is_some() || is_container(value);
    let (what, times) = match (grows(left), grows(right)) {
        (false, false) => return Ok(()),
        (true, _) => (left, right),
        (_, true) => (right, left),
    };
    pay_for_new(weigh_value(what)?.bytes.saturating_mul(to_unsigned_number(times).unwrap_or(1)))
}

/// Returns the absolute value of a number, without its fraction.
fn to_unsigned_number(value: &Value) -> Option<u64> {
    let whole = i128::try_from(value.clone()).ok()?;
    Some(u64::try_from(whole.unsigned_abs()).unwrap_or(u64::MAX))
}

/// Pays for a filter before it runs.
fn pay_before_call(name: &str, args: &[Value]) -> Result<(), Error> {
    let Some((first, others)) = args.split_first() else { return Ok(()) };
    let call = FilterCall { first, weight: weigh_value(first)?, others, extra: sum_weights(others)? };
    pay_for_read(call.estimate_work(name)?)?;
    pay_for_new(call.estimate_growth(name)?)
}

fn sum_weights(values: &[Value]) -> Result<u64, Error> {
    values.iter().try_fold(0u64, |sum, value| Ok(sum + weigh_value(value)?.bytes))
}

/// A call of a filter: its arguments and their weights.
struct FilterCall<'c> {
    first: &'c Value,
    weight: ValueWeight,
    others: &'c [Value],
    extra: u64,
}

impl FilterCall<'_> {
    /// Returns the number of bytes that the filter walks.
    fn estimate_work(&self, name: &str) -> Result<u64, Error> {
        let each = self.count_items().saturating_mul(VALUE_COST_BYTES + self.extra);
        Ok(match name {
            "map" | "select" | "selectattr" | "reject" | "rejectattr" | "groupby" | "zip" => self.weight.bytes + each,
            // Each comparison walks both values, and each value is compared about twenty times.
            "sort" | "unique" | "dictsort" | "min" | "max" => 20 * self.weight.bytes + each,
            // Texts are concatenated one by one, and each step copies the result.
            "sum" if !self.has_only_numbers() => self.count_items().saturating_mul(self.weight.bytes),
            "of_hosts" => self.count_items().saturating_mul(self.extra),
            _ if self.first.as_str().is_some() => {
                VALUE_COST_BYTES * self.weight.bytes.min(self.count_items()) + self.extra
            }
            _ => self.weight.bytes + self.extra,
        })
    }

    /// Returns by how many bytes the result may be larger than the input.
    fn estimate_growth(&self, name: &str) -> Result<u64, Error> {
        Ok(match name {
            "replace" => self.estimate_replacement(),
            "indent" => self.count_lines().saturating_mul(self.largest_number(4)),
            "join" => self.count_items().saturating_mul(self.longest_text()),
            "batch" => self.largest_number(0).saturating_mul(VALUE_COST_BYTES),
            "slice" => self.largest_number(0).saturating_mul(2 * VALUE_COST_BYTES),
            "tojson" => {
                let lines = self.weight.bytes / VALUE_COST_BYTES;
                lines.saturating_mul(self.weight.levels + 1).saturating_mul(self.largest_number(2))
            }
            "format" => self.sum_format_widths(),
            // Each character or line becomes a value.
            "list" | "lines" | "split" | "reverse" | "sort" | "unique" | "map" | "zip" | "chain" => {
                self.first.as_str().map_or(0, |text| text.len() as u64 * VALUE_COST_BYTES)
            }
            _ => 0,
        })
    }

    fn count_items(&self) -> u64 {
        self.first
            .as_str()
            .map(str::len)
            .or_else(|| self.first.len())
            .map_or(self.weight.bytes / VALUE_COST_BYTES, |len| len as u64)
    }

    fn count_lines(&self) -> u64 {
        match self.first.as_str() {
            Some(text) => 1 + text.matches('\n').count() as u64,
            None => self.weight.bytes,
        }
    }

    /// Returns all arguments after the first, including keyword arguments.
    fn list_arguments(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for value in self.others {
            match value.is_kwargs() {
                true => all.extend(value.try_iter().into_iter().flatten().filter_map(|key| value.get_item(&key).ok())),
                false => all.push(value.clone()),
            }
        }
        all
    }

    fn largest_number(&self, default: u64) -> u64 {
        self.list_arguments().iter().filter_map(to_unsigned_number).max().unwrap_or(default)
    }

    fn longest_text(&self) -> u64 {
        let length = |value: &Value| value.as_str().map_or(self.extra, |text| text.len() as u64);
        self.list_arguments().iter().map(length).max().unwrap_or(0)
    }

    fn has_only_numbers(&self) -> bool {
        self.first.try_iter().is_ok_and(|mut items| items.all(|item| item.is_number()))
    }

    fn estimate_replacement(&self) -> u64 {
        let to = self.others.get(1).map_or(0, |to| to.as_str().map_or(self.extra, |to| to.len() as u64));
        let found = match (self.first.as_str(), self.others.first().and_then(Value::as_str)) {
            (Some(text), Some(from)) if !from.is_empty() => text.matches(from).count() as u64,
            _ => self.weight.bytes + 1,
        };
        found.saturating_mul(to)
    }

    /// Returns the sum of all numbers in a format: each may be a width. A `*` reads its width from an argument.
    fn sum_format_widths(&self) -> u64 {
        let Some(format) = self.first.as_str() else { return self.weight.bytes };
        let digits = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let written: u64 = digits.fold(0, |sum: u64, digits| sum.saturating_add(digits.parse().unwrap_or(u64::MAX)));
        let given = format.matches('*').count() as u64;
        let texts = format.matches(['%', '{']).count() as u64;
        written
            .saturating_add(given.saturating_mul(self.largest_number(0)))
            .saturating_add(texts.saturating_mul(self.longest_text()))
    }
}
