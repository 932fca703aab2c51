//! `forge explain`.

use super::backend::Backend;
use super::error::CliError;
use super::output::VerbOutput;
use super::settings::CliSettings;
use super::shared_args::InventoryArg;
use super::verb_context::{LoadedProject, VerbContext, VerbResult};
use crate::config::builtin_data::{BUILTIN_RECIPES, is_builtin_recipe};
use crate::config::{self, Project, ValueName};
use crate::diag::{DiagCode, did_you_mean};
use crate::model::ExitCode;
use crate::view::{ManualPage, find_manual_page, list_manual_topics};

/// Explain a value, a step, a kind of resource, a topic or an error code; no host is contacted
///
/// THING is one of
///   HOST:RECIPE.PARAM or HOST:vars.NAME   a value: its source and the values that it overrides
///   RECIPE/STEP                           a step: rendered fields, inputs, dependencies
///   KIND                                  a kind of resource: an example, its behaviour and fields
///   TOPIC                                 a page of the documentation, such as `rollout` or `security`
///   F0301                                 an error code: an example, and how to fix it
/// HOST can be any selector; the default is the hosts of --on, else all. `forge explain kinds` lists the kinds.
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_long_help = "Examples:
  forge explain gpu-01:nvidia-driver.version     one value on one host
  forge explain nvidia-driver.version            on all hosts, equal values grouped
  forge explain gpu-01:vars.rack -i cluster.yaml
  forge explain nvidia-driver/packages --on gpu  a step
  forge explain file                             a kind of resource
  forge explain rollout                          a topic
  forge explain F0301                            an error code"
)]
pub struct ExplainArgs {
    /// A value, a step, a kind, a topic or an error code
    pub thing: String,
}

/// Everything that can be explained.
#[derive(Debug, PartialEq)]
enum ExplainTopic<'t> {
    Code(DiagCode),
    Page(ManualPage),
    Step { recipe: &'t str, step: &'t str },
    Value { on: Option<&'t str>, name: ValueName },
}

impl<'t> ExplainTopic<'t> {
    /// Parses by spelling: recipe names contain neither `/` nor `:`.
    fn parse(text: &'t str) -> Option<Self> {
        if let Some(code) = DiagCode::parse(text) {
            return Some(Self::Code(code));
        }
        if let Some(page) = find_manual_page(text) {
            return Some(Self::Page(page));
        }
        if let Some((recipe, step)) = text.split_once('/') {
            return Some(Self::Step { recipe, step });
        }
        let (on, name) = match text.rsplit_once(':') {
            Some((on, name)) => (Some(on), name),
            None => (None, text),
        };
        Some(Self::Value { on, name: ValueName::parse(name)? })
    }
}

pub fn run_explain<B: Backend>(cx: &VerbContext<'_, B>, args: &ExplainArgs) -> VerbResult {
    match ExplainTopic::parse(&args.thing) {
        Some(ExplainTopic::Code(code)) => {
            output_without_inventory(cx).write_result(&|writer, out| writer.write_error_code(code, out))?;
        }
        Some(ExplainTopic::Page(page)) => {
            output_without_inventory(cx).write_result(&|writer, out| writer.write_manual_page(&page, out))?
        }
        Some(ExplainTopic::Step { recipe, step }) => self::explain_step(cx, recipe, step)?,
        Some(ExplainTopic::Value { on, name }) => explain_value(cx, on, &name)?,
        None => return Err(unknown_topic_error(cx, &args.thing)),
    }
    Ok(ExitCode::Done)
}

fn output_without_inventory<'c, B>(cx: &VerbContext<'c, B>) -> VerbOutput<'c> {
    VerbOutput { console: cx.console, settings: cx.settings, target: None, resume: None }
}

fn explain_step<B: Backend>(cx: &VerbContext<'_, B>, recipe: &str, step: &str) -> Result<(), CliError> {
    let target = cx.resolve_target(&InventoryArg::default())?;
    let output = cx.output_for(&target);
    let (project, hosts) = cx.load_project(&target)?;
    let project = cx.backend.project(&project);
    let page = config::explain_step(project, &hosts, recipe, step);
    let page = page.map_err(|diag| output.report_selection_error(&diag, &project.sources))?;
    output.write_result(&|writer, out| writer.write_step(&page, out))
}

fn explain_value<B: Backend>(cx: &VerbContext<'_, B>, on: Option<&str>, name: &ValueName) -> Result<(), CliError> {
    let settings = narrow_settings(cx.settings, on)?;
    let cx = VerbContext { settings: &settings, ..*cx };
    let target = cx.resolve_target(&InventoryArg::default())?;
    let output = cx.output_for(&target);
    let (project, hosts): LoadedProject<B::Project> = cx.load_project(&target)?;
    let project = cx.backend.project(&project);
    let pages = config::explain_value(project, &hosts, name);
    let pages = pages.map_err(|diag| output.report_selection_error(&diag, &project.sources))?;
    output.write_result(&|writer, out| writer.write_values(&pages, out))
}

fn narrow_settings(settings: &CliSettings, on: Option<&str>) -> Result<CliSettings, CliError> {
    match (on, &settings.on) {
        (Some(on), Some(other)) => {
            let message = format!("hosts are selected twice: `{on}` and `--on {other}`");
            Err(CliError::usage(message).hint("pass only one of them"))
        }
        (Some(on), None) => Ok(settings.with_selection(on)),
        (None, _) => Ok(settings.clone()),
    }
}

/// Returns the error for an unknown `thing`, with the nearest known name; a missing inventory contributes no names.
fn unknown_topic_error<B: Backend>(cx: &VerbContext<'_, B>, thing: &str) -> CliError {
    let mut known: Vec<String> = DiagCode::ALL.iter().map(|code| code.id().to_owned()).collect();
    known.extend(list_manual_topics().map(str::to_owned));
    let loaded = cx.resolve_target(&InventoryArg::default()).ok();
    let project = loaded.and_then(|target| cx.backend.load_project(&target.path, cx.settings).0);
    if let Some(project) = &project {
        known.extend(list_project_topics(cx.backend.project(project)));
    }
    let error = CliError::usage(format!("`{thing}` is not a value, step, kind, topic or error code"));
    known.extend(BUILTIN_RECIPES.iter().map(|(name, _)| (*name).to_owned()));
    let own = project.as_ref().is_some_and(|project| cx.backend.project(project).library.contains_key(thing));
    let recipe = own || is_builtin_recipe(thing);
    match did_you_mean(thing, known.iter().map(String::as_str)) {
        _ if recipe => error.hint(format!("`forge recipes {thing}` shows a recipe")),
        Some(near) if is_builtin_recipe(near) => {
            error.hint(format!("did you mean the recipe `{near}`? `forge recipes {near}` shows it"))
        }
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("write `HOST:recipe.param`, `HOST:vars.name`, `recipe/step`, a kind like `file`, a topic like `rollout` or a code like `F0301`"),
    }
}

fn list_project_topics(project: &Project) -> Vec<String> {
    let mut things: Vec<String> = Vec::new();
    for recipe in project.library.values() {
        things.extend(recipe.steps.iter().map(|step| format!("{}/{}", recipe.name, step.name)));
        things.extend(recipe.params.keys().map(|param| format!("{}.{param}", recipe.name)));
    }
    things.extend(project.hosts.values().flat_map(|host| host.vars.keys()).map(|name| format!("vars.{name}")));
    things
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_topics_are_parsed_by_their_form() {
        let value = |on, recipe: &str, param: &str| {
            let name = ValueName::Param { recipe: recipe.into(), param: param.into() };
            Some(ExplainTopic::Value { on, name })
        };
        assert_eq!(ExplainTopic::parse("f0301"), Some(ExplainTopic::Code(DiagCode::UnknownRecipe)));
        assert_eq!(ExplainTopic::parse("web/page"), Some(ExplainTopic::Step { recipe: "web", step: "page" }));
        assert_eq!(
            ExplainTopic::parse("gpu-01:nvidia-driver.version"),
            value(Some("gpu-01"), "nvidia-driver", "version")
        );
        assert_eq!(ExplainTopic::parse("gpu:&rack_a:web.v1.port"), value(Some("gpu:&rack_a"), "web.v1", "port"));
        let var = ExplainTopic::Value { on: None, name: ValueName::Var("rack".into()) };
        assert_eq!(ExplainTopic::parse("vars.rack"), Some(var));
        assert!(matches!(ExplainTopic::parse("file"), Some(ExplainTopic::Page(page)) if page.topic == "file"));
        assert!(
            matches!(ExplainTopic::parse("docs/rollout.md"), Some(ExplainTopic::Page(page)) if page.topic == "rollout")
        );
        assert_eq!(ExplainTopic::parse("web"), None);
        assert_eq!(ExplainTopic::parse("F9999"), None);
    }
}
