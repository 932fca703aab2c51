//! Compiling and running: each text is compiled once and runs with a limit.

use super::names::{self, Look, Read};
use super::record::{Record, recorded};
use super::tree::{Bindings, secret_safe};
use super::{Eval, Expect, TemplateError, filters};
use crate::model::Value as Json;
use minijinja::machinery::{parse, parse_expr};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Expression, UndefinedBehavior, Value};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, RwLock};

/// Steps of the engine that one evaluation may take: a loop over 10,000 hosts stays far below.
const FUEL: u64 = 2_000_000;

/// How deep an expression may be nested, in bytes of brackets and operators: the parser recurses.
const MAX_SOURCE: usize = 1 << 20;

static ENV: LazyLock<Environment<'static>> = LazyLock::new(environment);

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(FUEL));
    env.set_debug(true);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_syntax(syntax());
    filters::install(&mut env);
    env
}

/// A file keeps its last newline.
fn syntax() -> SyntaxConfig {
    let mut builder = SyntaxConfig::builder();
    builder.keep_trailing_newline(true);
    builder.build().unwrap_or_default()
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::config) enum Form {
    /// `params.gsp == "off"`
    Expression,
    /// `options nvidia {{ params.options }}`
    Template,
}

/// A compiled template or expression.
#[derive(Debug)]
pub(in crate::config) struct Program {
    code: Code,
    look: Look,
}

enum Code {
    Expression(Expression<'static, 'static>),
    /// A template in an environment of its own, which is how the engine lets one own its text.
    Template(Environment<'static>),
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expression(_) => "Expression",
            Self::Template(_) => "Template",
        })
    }
}

const NAME: &str = "template";

impl Program {
    /// Compiles `source`. A template that is one expression keeps the type of its value.
    ///
    /// # Errors
    /// Bad syntax. Names that do not exist are no errors here: see [`Program::mistakes`].
    pub fn compile(source: &str, form: Form) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(TemplateError {
                message: "the template is larger than 1 MiB".into(),
                range: None,
                hint: None,
                undefined: false,
            });
        }
        match form {
            Form::Expression => Self::expression(source, 0),
            Form::Template => Self::template(source),
        }
    }

    fn expression(source: &str, offset: usize) -> Result<Self, TemplateError> {
        let ast = parse_expr(source).map_err(|error| syntax_error(&error, offset))?;
        let look = names::expression(&ast);
        let code = ENV.compile_expression_owned(source.to_owned()).map_err(|error| syntax_error(&error, offset))?;
        Ok(Self { code: Code::Expression(code), look: shifted(look, offset) })
    }

    fn template(source: &str) -> Result<Self, TemplateError> {
        let ast = parse(source, NAME, syntax()).map_err(|error| syntax_error(&error, 0))?;
        if names::sole_expression(&ast).is_some()
            && let Some((range, inner)) = inner_expression(source)
        {
            return Self::expression(inner, range.start);
        }
        let look = names::template(&ast);
        let mut env = ENV.clone();
        env.add_template_owned(NAME, source.to_owned()).map_err(|error| syntax_error(&error, 0))?;
        Ok(Self { code: Code::Template(env), look })
    }

    /// Returns the paths that it reads.
    pub fn reads(&self) -> &[Read] {
        &self.look.reads
    }

    /// Returns what is wrong with its names of roots, filters, tests and functions.
    pub fn mistakes(&self) -> &[TemplateError] {
        &self.look.errors
    }

    /// Runs it. Text with placeholders of secrets comes back with the placeholders whole.
    ///
    /// # Errors
    /// A type that does not fit, a name that does not exist, the limit of steps.
    pub fn run(&self, bindings: &Bindings) -> Result<Eval<Json>, TemplateError> {
        let (result, record) = self.raw(bindings);
        self.settle(result, record)
    }

    /// Runs it as a condition.
    ///
    /// # Errors
    /// As [`Program::run`], and a result that is neither true nor false.
    pub fn test(&self, bindings: &Bindings) -> Result<Eval<bool>, TemplateError> {
        match self.run(bindings)? {
            Eval::Known { value: Json::Bool(value), reads } => Ok(Eval::Known { value, reads }),
            Eval::Known { value, .. } => Err(not_a_condition(&value)),
            Eval::Deferred(need) => Ok(Eval::Deferred(need)),
        }
    }

    /// Runs it as an expectation: what says something about each element of a list of facts says nothing
    /// when the list is empty. Null is known: it means that the host has no such thing. What is unknown of a fact
    /// while the rest is known is so only for what reads it.
    ///
    /// # Errors
    /// As [`Program::test`].
    pub fn expect(&self, bindings: &Bindings) -> Result<Expect, TemplateError> {
        let (result, record) = self.raw(bindings);
        let unknown = match (&record.need, &record.empty) {
            (Some(need), _) => Some((need.describe(), Some(need.clone()))),
            (None, Some(path)) if self.look.maps => Some((format!("fact `{path}` is an empty list"), None)),
            _ => None,
        };
        if let Some((why, need)) = unknown {
            return Ok(Expect::Unknown { why, need });
        }
        match self.settle(result, record)? {
            Eval::Known { value: Json::Bool(value), reads } => Ok(Expect::Known { value, reads }),
            Eval::Known { value, .. } => Err(not_a_condition(&value)),
            Eval::Deferred(need) => Ok(Expect::Unknown { why: need.describe(), need: Some(need) }),
        }
    }

    /// Whether it says something about each element of a list.
    pub fn maps(&self) -> bool {
        self.look.maps
    }

    fn raw(&self, bindings: &Bindings) -> (Result<Json, Error>, Record) {
        recorded(|| match &self.code {
            Code::Expression(expression) => expression.eval(bindings.context()).and_then(|value| json(&value)),
            Code::Template(env) => env.get_template(NAME)?.render(bindings.context()).map(Json::from),
        })
    }

    fn settle(&self, result: Result<Json, Error>, record: Record) -> Result<Eval<Json>, TemplateError> {
        if let Some(need) = record.need {
            return Ok(Eval::Deferred(need));
        }
        match (&result, record.missing.first()) {
            (Err(error), Some(missing)) if error.kind() == ErrorKind::UndefinedError => {
                return Err(self.missing(missing));
            }
            (Ok(_), Some(missing)) if !self.look.lenient => return Err(self.missing(missing)),
            _ => {}
        }
        if let Some(error) = self.parts_of_a_leaf(&record) {
            return Err(error);
        }
        let value = result.map_err(|error| self.runtime_error(&error))?;
        match whole(&value) {
            true => Ok(Eval::Known { value, reads: record.reads }),
            false => Err(TemplateError {
                message: "a secret was cut or changed on the way".into(),
                range: None,
                hint: Some("use a secret as it is, without filters".into()),
                undefined: false,
            }),
        }
    }

    /// A single value has no parts: the engine takes `facts.virtualization.kind` for undefined and lets it be
    /// compared.
    fn parts_of_a_leaf(&self, record: &Record) -> Option<TemplateError> {
        if self.look.lenient || record.leaves.is_empty() {
            return None;
        }
        self.look.reads.iter().find_map(|read| {
            let mut path = read.root.name().to_owned();
            for part in &read.path {
                if record.leaves.contains(&path) {
                    return Some(TemplateError {
                        message: format!("`{path}` is one value and has no `{part}`"),
                        range: Some(read.range.clone()),
                        hint: None,
                        undefined: true,
                    });
                }
                path = format!("{path}.{part}");
            }
            None
        })
    }

    fn missing(&self, missing: &super::record::Missing) -> TemplateError {
        let near = crate::diag::did_you_mean(&missing.name, missing.known.iter().map(String::as_str));
        let range =
            self.look.reads.iter().find(|read| read.path.contains(&missing.name)).map(|read| read.range.clone());
        TemplateError {
            message: format!("`{}` does not exist", missing.path),
            range,
            hint: near.map(|near| format!("did you mean `{near}`?")),
            undefined: true,
        }
    }

    fn runtime_error(&self, error: &Error) -> TemplateError {
        TemplateError {
            message: message(error),
            range: error.range().filter(|range| !range.is_empty()),
            hint: None,
            undefined: error.kind() == ErrorKind::UndefinedError,
        }
    }
}

/// Compiled programs by text: each text is compiled once per project.
#[derive(Debug, Default)]
pub(in crate::config) struct Programs(RwLock<HashMap<(Form, Box<str>), Compiled>>);

type Compiled = Arc<Result<Program, TemplateError>>;

impl Programs {
    pub fn get(&self, source: &str, form: Form) -> Compiled {
        let key = (form, Box::from(source));
        let held = self.0.read().map(|map| map.get(&key).cloned());
        if let Ok(Some(program)) = held {
            return program;
        }
        let program = Arc::new(Program::compile(source, form));
        if let Ok(mut map) = self.0.write() {
            map.insert(key, program.clone());
        }
        program
    }

    /// Returns every template that compiled so far.
    pub fn compiled(&self) -> Vec<Compiled> {
        self.0.read().map(|map| map.values().cloned().collect()).unwrap_or_default()
    }
}

fn json(value: &Value) -> Result<Json, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    serde_json::to_value(value).map_err(|_| Error::new(ErrorKind::InvalidOperation, "the result is not a plain value"))
}

fn not_a_condition(value: &Json) -> TemplateError {
    let found = match value {
        Json::Null => "nothing".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "a map".to_owned(),
        other => format!("`{}`", super::super::scalar::shorten(&text_of(other))),
    };
    TemplateError {
        message: format!("a condition must be true or false, found {found}"),
        range: None,
        hint: Some("compare it: `x == \"on\"`, `x | length > 0`".into()),
        undefined: false,
    }
}

fn text_of(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn whole(value: &Json) -> bool {
    match value {
        Json::String(text) => secret_safe(text),
        Json::Array(items) => items.iter().all(whole),
        Json::Object(map) => map.iter().all(|(key, value)| secret_safe(key) && whole(value)),
        _ => true,
    }
}

/// Returns the expression inside `{{ … }}` with its place.
fn inner_expression(source: &str) -> Option<(Range<usize>, &str)> {
    let inner = source.strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let inner = inner.strip_suffix(['-', '+']).unwrap_or(inner);
    let start = inner.as_ptr() as usize - source.as_ptr() as usize;
    Some((start..start + inner.len(), inner))
}

fn shifted(mut look: Look, offset: usize) -> Look {
    let shift = |range: &mut Range<usize>| *range = range.start + offset..range.end + offset;
    look.reads.iter_mut().for_each(|read| shift(&mut read.range));
    look.errors.iter_mut().filter_map(|error| error.range.as_mut()).for_each(shift);
    look
}

fn syntax_error(error: &Error, offset: usize) -> TemplateError {
    let range = error.range().filter(|range| !range.is_empty()).map(|range| range.start + offset..range.end + offset);
    TemplateError { message: message(error), range, hint: None, undefined: false }
}

fn message(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "the template takes too long".to_owned(),
        (ErrorKind::UndefinedError, _) => "a name does not exist".to_owned(),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
