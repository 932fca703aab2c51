//! The built-in questions of `forge why-slow`: the table `slow-causes`, compiled, and asked of a host's facts.

use super::builtin_data::builtin_tables;
use super::template::{
    EvalOutcome, FactSource, TemplateBindings, TemplateError, TemplateForm, TemplateProgram, build_facts,
};
use crate::acceptance::{QuestionAnswer, SlowQuestion};
use crate::facts::Facts;
use crate::model::Value;
use serde::Deserialize;
use std::collections::BTreeSet;

/// A row of the table. The facts `declared_lanes`, `workload`, `nccl`, `traffic`, `pod_network` and `peers` exist only
/// here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionRow {
    name: String,
    question: String,
    /// Earlier questions whose findings answer this one.
    #[serde(default)]
    after: Vec<String>,
    /// An expression: the question does not apply if it is false.
    when: Option<String>,
    /// A template: the evidence, or nothing.
    finds: String,
    /// A template: if nothing was found, why the answer is unknown; or nothing.
    unknown: Option<String>,
    /// A template: what was seen if nothing was found.
    clear: String,
    cause: String,
    likelihood: crate::acceptance::CauseLikelihood,
    #[serde(default)]
    recipes: Vec<String>,
    action: Option<String>,
}

struct CompiledQuestion {
    question: SlowQuestion,
    after: Vec<String>,
    when: Option<TemplateProgram>,
    finds: TemplateProgram,
    unknown: Option<TemplateProgram>,
    clear: TemplateProgram,
}

/// The built-in questions, in the order in which they are asked.
pub struct SlowQuestions(Vec<CompiledQuestion>);

impl SlowQuestions {
    /// Compiles the built-in questions.
    ///
    /// # Errors
    /// Returns the first row that is invalid: a defect of the table, which a test finds.
    pub fn load_builtin() -> Result<Self, String> {
        let table = builtin_tables().iter().find(|table| table.name == "slow-causes");
        let rows = table.and_then(|table| table.rows.get("questions")).and_then(Value::as_array);
        rows.ok_or("the table `slow-causes` has no `questions`")?
            .iter()
            .map(compile_row)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the questions.
    pub fn list_questions(&self) -> Vec<SlowQuestion> {
        self.0.iter().map(|compiled| compiled.question.clone()).collect()
    }

    /// Returns one answer to each question.
    pub fn ask_host(&self, facts: &Facts) -> Vec<QuestionAnswer> {
        let bindings = TemplateBindings { facts: Some(build_facts(FactSource::Known(facts))), ..Default::default() };
        let mut found = BTreeSet::new();
        let ask = |compiled: &CompiledQuestion| {
            let answer = match compiled.after.iter().find(|name| found.contains(name.as_str())) {
                Some(earlier) => QuestionAnswer::AnsweredBy(earlier.clone()),
                None => compiled.ask(&bindings),
            };
            if matches!(answer, QuestionAnswer::Found(_)) {
                found.insert(compiled.question.name.clone());
            }
            answer
        };
        self.0.iter().map(ask).collect()
    }
}

fn compile_row(row: &Value) -> Result<CompiledQuestion, String> {
    let row = QuestionRow::deserialize(row).map_err(|error| format!("table `slow-causes`: {error}"))?;
    let invalid = |error: TemplateError| format!("question `{}`: {}", row.name, error.message);
    let compile = |text: &str, form| TemplateProgram::compile(text, form).map_err(invalid);
    Ok(CompiledQuestion {
        when: row.when.as_deref().map(|text| compile(text, TemplateForm::Expression)).transpose()?,
        finds: compile(&row.finds, TemplateForm::Template)?,
        unknown: row.unknown.as_deref().map(|text| compile(text, TemplateForm::Template)).transpose()?,
        clear: compile(&row.clear, TemplateForm::Template)?,
        after: row.after,
        question: SlowQuestion {
            name: row.name,
            question: row.question,
            cause: row.cause,
            likelihood: row.likelihood,
            recipes: row.recipes,
            action: row.action,
        },
    })
}

impl CompiledQuestion {
    fn ask(&self, bindings: &TemplateBindings) -> QuestionAnswer {
        let result = || {
            if let Some(when) = &self.when
                && !take_known(when.run_condition(bindings))?
            {
                return Ok(QuestionAnswer::NotApplicable);
            }
            let found = render_text(&self.finds, bindings)?;
            if !found.is_empty() {
                return Ok(QuestionAnswer::Found(found.into()));
            }
            let unknown = self.unknown.as_ref().map(|template| render_text(template, bindings)).transpose()?;
            match unknown.filter(|why| !why.is_empty()) {
                Some(why) => Err(why),
                None => render_text(&self.clear, bindings).map(|seen| QuestionAnswer::Clear(seen.into())),
            }
        };
        result().unwrap_or_else(|why: String| QuestionAnswer::Unknown(why.into()))
    }
}

/// Renders a template as one line. Items end with a semicolon, also the last one.
fn render_text(program: &TemplateProgram, bindings: &TemplateBindings) -> Result<String, String> {
    let value = take_known(program.run(bindings))?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(words.join(" ").trim_end_matches(';').to_owned())
}

fn take_known<T>(outcome: Result<EvalOutcome<T>, TemplateError>) -> Result<T, String> {
    match outcome {
        Ok(EvalOutcome::Known { value, .. }) => Ok(value),
        Ok(EvalOutcome::Deferred(need)) => Err(need.describe()),
        Err(error) => Err(format!("the facts could not be evaluated: {}", error.message)),
    }
}

#[cfg(test)]
mod tests;
