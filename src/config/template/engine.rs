//! Compiles and runs templates. Each text is compiled once and runs within limits.

use super::eval_budget::{self, ExceededLimit, ProjectUsage};
use super::eval_record::{EvalRecord, run_recorded};
use super::metered_code::meter_code;
use super::nesting::find_deep_nesting;
use super::secret_guard;
use super::template_scan::{self, TemplateRead, TemplateScan};
use super::value_tree::{TemplateBindings, has_whole_placeholders};
use super::{EvalOutcome, ExpectOutcome, TemplateError, filters};
use crate::model::{SecretStore, Value as Json};
use hashbrown::HashMap;
use minijinja::machinery::{CodeGenerator, Instructions, eval, make_string_output, parse, parse_expr};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, RwLock};

/// Maximum number of engine steps per evaluation. A loop over 10,000 hosts stays far below.
const MAX_FUEL: u64 = 4_000_000;

/// Maximum size of a template. Bytes.
const MAX_SOURCE_BYTES: usize = 1 << 20;

static TEMPLATE_ENV: LazyLock<Environment<'static>> = LazyLock::new(build_environment);

fn build_environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(MAX_FUEL));
    env.set_debug(true);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_syntax(build_syntax());
    env.set_formatter(|out, state, value| {
        secret_guard::guard_written(value)?;
        eval_budget::pay_for_emitted(value)?;
        minijinja::escape_formatter(out, state, value)
    });
    filters::install_filters(&mut env);
    env
}

/// Returns the syntax settings: rendered files keep their last newline.
fn build_syntax() -> SyntaxConfig {
    let mut builder = SyntaxConfig::builder();
    builder.keep_trailing_newline(true);
    builder.build().unwrap_or_default()
}

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::config) enum TemplateForm {
    /// `params.gsp == "off"`
    Expression,
    /// `options nvidia {{ params.options }}`
    Template,
}

/// A compiled template or expression.
pub(in crate::config) struct TemplateProgram {
    form: TemplateForm,
    code: Instructions<'static>,
    look: TemplateScan,
    /// Byte offset of the compiled text in its template.
    offset: usize,
    usage: Arc<ProjectUsage>,
}

/// The unchecked result of a run.
type RawEvaluation = (Result<Json, Error>, EvalRecord);

impl std::fmt::Debug for TemplateProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("form", &self.form).field("look", &self.look).finish_non_exhaustive()
    }
}

const TEMPLATE_NAME: &str = "template";

/// Templates have no named blocks: inheritance is not supported.
static NO_BLOCKS: BTreeMap<&'static str, Instructions<'static>> = BTreeMap::new();

impl TemplateProgram {
    /// Compiles `source`. A template that consists of one expression keeps the type of its value.
    ///
    /// # Errors
    /// Invalid syntax, or a text that is too long or nested too deep. Unknown names are not errors here: see
    /// [`TemplateProgram::name_errors`].
    pub fn compile(source: &str, form: TemplateForm) -> Result<Self, TemplateError> {
        Self::compile_with_usage(source, form, &Arc::default())
    }

    /// Compiles `source` for a project. `usage` counts all evaluations of the project.
    fn compile_with_usage(source: &str, form: TemplateForm, usage: &Arc<ProjectUsage>) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(TemplateError {
                message: "the template is larger than 1 MiB".into(),
                range: None,
                hint: Some("copy a large file with `source`, which does not render it".into()),
                undefined: false,
            });
        }
        if let Some(error) = find_deep_nesting(source, form == TemplateForm::Expression, build_syntax()) {
            return Err(error);
        }
        match form {
            TemplateForm::Expression => Self::compile_expression(source, 0, usage),
            TemplateForm::Template => Self::compile_template(source, usage),
        }
    }

    fn compile_expression(source: &str, offset: usize, usage: &Arc<ProjectUsage>) -> Result<Self, TemplateError> {
        let ast = parse_expr(source).map_err(|error| build_syntax_error(&error, offset))?;
        let look = template_scan::scan_expression(&ast);
        Self::generate_code(TemplateForm::Expression, look, offset, usage, |generator| generator.compile_expr(&ast))
    }

    fn compile_template(source: &str, usage: &Arc<ProjectUsage>) -> Result<Self, TemplateError> {
        let ast = parse(source, TEMPLATE_NAME, build_syntax()).map_err(|error| build_syntax_error(&error, 0))?;
        if template_scan::sole_expression(&ast).is_some()
            && let Some((range, inner)) = find_inner_expression(source)
        {
            return Self::compile_expression(inner, range.start, usage);
        }
        let look = template_scan::scan_template(&ast);
        Self::generate_code(TemplateForm::Template, look, 0, usage, |generator| generator.compile_stmt(&ast))
    }

    fn generate_code<'s>(
        form: TemplateForm,
        look: TemplateScan,
        offset: usize,
        usage: &Arc<ProjectUsage>,
        compile: impl FnOnce(&mut CodeGenerator<'s>),
    ) -> Result<Self, TemplateError> {
        let mut look = shift_ranges(look, offset);
        if let Some(refused) = look.refused.take() {
            return Err(refused);
        }
        let mut generator = CodeGenerator::new(TEMPLATE_NAME, "");
        compile(&mut generator);
        let code = meter_code(&generator.finish().0);
        Ok(Self { form, code, look, offset, usage: usage.clone() })
    }

    /// Returns the paths that the program reads.
    pub fn reads(&self) -> &[TemplateRead] {
        &self.look.reads
    }

    /// Returns the literal names that the program looks up in `host.groups`, with their byte range.
    pub fn read_groups(&self) -> &[(String, Range<usize>)] {
        &self.look.groups
    }

    /// Returns errors in names of roots, filters, tests and functions.
    pub fn name_errors(&self) -> &[TemplateError] {
        &self.look.errors
    }

    /// Runs the program. Placeholders of secrets in the result are guaranteed to be intact.
    ///
    /// # Errors
    /// A wrong type, a name that does not exist, or an exceeded limit.
    pub fn run(&self, bindings: &TemplateBindings) -> Result<EvalOutcome<Json>, TemplateError> {
        let (result, record) = self.run_raw(bindings)?;
        self.settle_result(result, record)
    }

    /// Runs the program as a condition.
    ///
    /// # Errors
    /// The same as [`TemplateProgram::run`], and a result that is neither true nor false.
    pub fn run_condition(&self, bindings: &TemplateBindings) -> Result<EvalOutcome<bool>, TemplateError> {
        match self.run(bindings)? {
            EvalOutcome::Known { value: Json::Bool(value), reads } => Ok(EvalOutcome::Known { value, reads }),
            EvalOutcome::Known { value, .. } => Err(build_not_a_condition_error(&value)),
            EvalOutcome::Deferred(need) => Ok(EvalOutcome::Deferred(need)),
        }
    }

    /// Runs the program as an expectation. An expectation over each element of a list of facts is unknown if the list
    /// is empty. Null is a known value: the host does not have it. An unknown part of a fact makes only those
    /// expectations unknown that read the part.
    ///
    /// # Errors
    /// The same as [`TemplateProgram::run_condition`].
    pub fn run_expectation(&self, bindings: &TemplateBindings) -> Result<ExpectOutcome, TemplateError> {
        let (result, record) = self.run_raw(bindings)?;
        let unknown = match (&record.need, &record.empty) {
            (Some(need), _) => Some((need.describe(), Some(need.clone()))),
            (None, Some(path)) if self.look.maps => Some((format!("fact `{path}` is an empty list"), None)),
            _ => None,
        };
        if let Some((why, need)) = unknown {
            return Ok(ExpectOutcome::Unknown { why, need });
        }
        match self.settle_result(result, record)? {
            EvalOutcome::Known { value: Json::Bool(value), reads } => Ok(ExpectOutcome::Known { value, reads }),
            EvalOutcome::Known { value, .. } => Err(build_not_a_condition_error(&value)),
            EvalOutcome::Deferred(need) => Ok(ExpectOutcome::Unknown { why: need.describe(), need: Some(need) }),
        }
    }

    /// Returns whether the program evaluates each element of a list.
    pub fn checks_each_element(&self) -> bool {
        self.look.maps
    }

    fn run_raw(&self, bindings: &TemplateBindings) -> Result<RawEvaluation, TemplateError> {
        let (run, record) = run_recorded(|| eval_budget::run_limited(&self.usage, || self.evaluate_code(bindings)));
        let (result, excess) = run;
        match excess {
            Some(excess) => Err(excess.to_template_error(result.err().and_then(|error| self.locate_error(&error)))),
            None => Ok((result, record)),
        }
    }

    fn evaluate_code(&self, bindings: &TemplateBindings) -> Result<Json, Error> {
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        let (value, _) =
            eval(&TEMPLATE_ENV, &self.code, bindings.to_context(), &NO_BLOCKS, &mut output, AutoEscape::None)?;
        match self.form {
            TemplateForm::Expression => value.map_or(Ok(Json::Null), |value| to_json(&value)),
            TemplateForm::Template => eval_budget::pay_for_new(text.len() as u64).map(|()| Json::from(text)),
        }
    }

    fn settle_result(
        &self,
        result: Result<Json, Error>,
        record: EvalRecord,
    ) -> Result<EvalOutcome<Json>, TemplateError> {
        if let Some(need) = record.need {
            return Ok(EvalOutcome::Deferred(need));
        }
        match (&result, &record.missing) {
            (Err(error), Some(missing)) if error.kind() == ErrorKind::UndefinedError => {
                return Err(self.build_missing_name_error(missing));
            }
            (Ok(_), Some(missing)) if !self.look.lenient => return Err(self.build_missing_name_error(missing)),
            _ => {}
        }
        if let Some(error) = self.find_leaf_part_error(&record) {
            return Err(error);
        }
        let value = result.map_err(|error| self.build_runtime_error(&error))?;
        match has_whole_secrets(&value) {
            true => Ok(EvalOutcome::Known { value, reads: record.reads }),
            false => Err(TemplateError {
                message: "a template must not change a secret".into(),
                range: None,
                hint: Some(secret_guard::SECRET_HINT.into()),
                undefined: false,
            }),
        }
    }

    /// Reports reads of fields of a single value: the engine evaluates `facts.virtualization.kind` to undefined and
    /// allows comparing it.
    fn find_leaf_part_error(&self, record: &EvalRecord) -> Option<TemplateError> {
        if self.look.lenient || record.leaves.is_empty() {
            return None;
        }
        self.look.reads.iter().find_map(|read| {
            let mut path = read.root.name().to_owned();
            for part in &read.path {
                if record.leaves.contains(&path) {
                    return Some(TemplateError {
                        message: format!("`{path}` is a single value and has no `{part}`"),
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

    fn build_missing_name_error(&self, missing: &super::eval_record::MissingName) -> TemplateError {
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

    fn build_runtime_error(&self, error: &Error) -> TemplateError {
        // The scan names what the engine only calls undefined.
        let unnamed = error.kind() == ErrorKind::UndefinedError;
        if let Some(named) = self.look.errors.iter().find(|scanned| unnamed && scanned.undefined) {
            return named.clone();
        }
        TemplateError {
            message: format_error(error),
            range: self.locate_error(error),
            hint: find_error_hint(error).map(str::to_owned),
            undefined: error.kind() == ErrorKind::UndefinedError,
        }
    }

    fn locate_error(&self, error: &Error) -> Option<Range<usize>> {
        let range = error.range().filter(|range| !range.is_empty())?;
        Some(range.start + self.offset..range.end + self.offset)
    }
}

/// Compiled programs by text. Each text is compiled once per project.
#[derive(Debug, Default)]
pub(in crate::config) struct ProgramCache {
    /// By form.
    compiled: [RwLock<HashMap<Box<str>, CompiledProgram>>; 2],
    usage: Arc<ProjectUsage>,
}

type CompiledProgram = Arc<Result<TemplateProgram, TemplateError>>;

impl ProgramCache {
    pub fn get(&self, source: &str, form: TemplateForm) -> CompiledProgram {
        let compiled = &self.compiled[form as usize];
        let held = compiled.read().map(|map| map.get(source).cloned());
        if let Ok(Some(program)) = held {
            return program;
        }
        let program = Arc::new(TemplateProgram::compile_with_usage(source, form, &self.usage));
        if let Ok(mut map) = compiled.write() {
            map.insert(source.into(), program.clone());
        }
        program
    }

    /// Returns every program that was compiled so far, including failed ones.
    pub fn compiled_programs(&self) -> Vec<CompiledProgram> {
        let maps = self.compiled.iter().filter_map(|map| map.read().ok());
        maps.flat_map(|map| map.values().cloned().collect::<Vec<_>>()).collect()
    }
}

fn to_json(value: &Value) -> Result<Json, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    serde_json::to_value(value).map_err(|_| Error::new(ErrorKind::InvalidOperation, "the result is not a plain value"))
}

fn build_not_a_condition_error(value: &Json) -> TemplateError {
    let found = match value {
        Json::String(text) if SecretStore::has_placeholder(text) => {
            return TemplateError {
                message: "a secret is not a condition: templates do not know its value".into(),
                range: None,
                hint: Some(secret_guard::SECRET_HINT.into()),
                undefined: false,
            };
        }
        Json::Null => "nothing".to_owned(),
        Json::Array(_) => "a list".to_owned(),
        Json::Object(_) => "a map".to_owned(),
        other => format!("`{}`", super::super::scalar::shorten_text(&format_json(other))),
    };
    TemplateError {
        message: format!("a condition must be true or false, found {found}"),
        range: None,
        hint: Some("compare it: `x == \"on\"`, `x | length > 0`".into()),
        undefined: false,
    }
}

fn format_json(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn has_whole_secrets(value: &Json) -> bool {
    match value {
        Json::String(text) => has_whole_placeholders(text),
        Json::Array(items) => items.iter().all(has_whole_secrets),
        Json::Object(map) => map.iter().all(|(key, value)| has_whole_placeholders(key) && has_whole_secrets(value)),
        _ => true,
    }
}

/// Returns the expression inside `{{ … }}` with its byte range.
fn find_inner_expression(source: &str) -> Option<(Range<usize>, &str)> {
    let inner = source.strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let inner = inner.strip_suffix(['-', '+']).unwrap_or(inner);
    let start = inner.as_ptr() as usize - source.as_ptr() as usize;
    Some((start..start + inner.len(), inner))
}

fn shift_ranges(mut look: TemplateScan, offset: usize) -> TemplateScan {
    let shift = |range: &mut Range<usize>| *range = range.start + offset..range.end + offset;
    look.reads.iter_mut().for_each(|read| shift(&mut read.range));
    look.groups.iter_mut().for_each(|(_, range)| shift(range));
    look.errors.iter_mut().filter_map(|error| error.range.as_mut()).for_each(shift);
    look
}

fn build_syntax_error(error: &Error, offset: usize) -> TemplateError {
    let range = error.range().filter(|range| !range.is_empty()).map(|range| range.start + offset..range.end + offset);
    TemplateError { message: format_error(error), range, hint: None, undefined: false }
}

fn find_error_hint(error: &Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::OutOfFuel => Some(ExceededLimit::Evaluation.hint()),
        _ => secret_guard::is_misuse(error).then_some(secret_guard::SECRET_HINT),
    }
}

fn format_error(error: &Error) -> String {
    match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => ExceededLimit::Evaluation.message(),
        (ErrorKind::UndefinedError, _) => "a name does not exist".to_owned(),
        (_, Some(detail)) => detail.to_owned(),
        (kind, None) => kind.to_string(),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
mod limits;

#[cfg(test)]
mod secrets;
