//! Determines the names that the templates of a step read, once per step.

use super::recipe_files::read_template_file;
use crate::config::template::{TemplateForm, TemplateProgram, TemplateRoot};
use crate::config::template_list::list_step_templates;
use crate::config::{Project, Recipe, RecipeStep};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::{Arc, RwLock};

/// Names that a set of templates reads.
#[derive(Clone, Debug, Default)]
pub(super) struct TemplateReads {
    roots: BTreeSet<TemplateRoot>,
    /// Facts by name; `None` when a template computes the name.
    pub facts: Option<BTreeSet<String>>,
}

impl TemplateReads {
    pub fn has_root(&self, root: TemplateRoot) -> bool {
        self.roots.contains(&root)
    }

    /// Reports whether the result may differ between hosts that share an instance of the recipe.
    pub fn is_host_bound(&self) -> bool {
        [TemplateRoot::Vars, TemplateRoot::Host, TemplateRoot::Recipes, TemplateRoot::Facts, TemplateRoot::Exports]
            .iter()
            .any(|root| self.roots.contains(root))
    }

    fn with_all_roots() -> Self {
        Self { roots: TemplateRoot::ALL.into_iter().collect(), facts: None }
    }

    fn add_read(&mut self, root: TemplateRoot, path: &[String]) {
        self.roots.insert(root);
        if root == TemplateRoot::Facts {
            match (path.first(), &mut self.facts) {
                (Some(name), Some(facts)) => {
                    facts.insert(name.clone());
                }
                (None, _) => self.facts = None,
                (Some(_), None) => {}
            }
        }
    }
}

/// Returns the names that templates read. A template that does not compile counts as reading nothing: rendering it
/// reports the error.
pub(super) fn collect_reads<'t>(
    project: &Project,
    texts: impl IntoIterator<Item = (&'t str, TemplateForm)>,
) -> TemplateReads {
    let mut reads = TemplateReads { facts: Some(BTreeSet::new()), ..TemplateReads::default() };
    for (text, form) in texts {
        if let Ok(program) = project.programs.get(text, form).as_ref() {
            program.reads().iter().for_each(|read| reads.add_read(read.root, &read.path));
        }
    }
    reads
}

impl Project {
    /// Returns the names of the facts that an expression reads. `None` means that it may read any fact.
    pub fn collect_expression_facts(&self, expression: &str) -> Option<BTreeSet<String>> {
        collect_reads(self, [(expression, TemplateForm::Expression)]).facts
    }

    /// Returns the names of the facts that templates read, including template files. `None` means that any fact may be
    /// read: a template uses `facts` as a whole, or the path of a template file depends on values.
    pub fn collect_read_facts(&self) -> Option<BTreeSet<String>> {
        let mut all = TemplateReads { facts: Some(BTreeSet::new()), ..TemplateReads::default() };
        let steps = self.recipes.values().flat_map(|recipe| recipe.steps.iter().map(move |step| (recipe, step)));
        for (recipe, step) in steps {
            // A template file is compiled on first use, which may be later in the plan.
            all.facts = join_facts(all.facts, inspect_step(self, recipe, step).reads.facts);
        }
        for program in self.programs.compiled_programs() {
            program.iter().flat_map(TemplateProgram::reads).for_each(|read| all.add_read(read.root, &read.path));
        }
        all.facts
    }
}

fn join_facts(one: Option<BTreeSet<String>>, other: Option<BTreeSet<String>>) -> Option<BTreeSet<String>> {
    one.zip(other).map(|(one, other)| one.into_iter().chain(other).collect())
}

/// Properties of a step that do not depend on a host.
#[derive(Debug)]
pub(super) struct StepTemplateInfo {
    pub reads: TemplateReads,
    /// Whether `when` must be evaluated for every item of `each`.
    pub when_per_item: bool,
}

/// Properties of steps, keyed by address: a step lives as long as its project.
#[derive(Debug, Default)]
pub(super) struct StepTemplateCache {
    steps: RwLock<HashMap<usize, Arc<StepTemplateInfo>>>,
    /// Names read by rules and verifications.
    reads: RwLock<HashMap<usize, Arc<TemplateReads>>>,
}

impl StepTemplateCache {
    pub fn get_step_info(&self, project: &Project, recipe: &Recipe, step: &Arc<RecipeStep>) -> Arc<StepTemplateInfo> {
        get_or_build(&self.steps, Arc::as_ptr(step) as usize, || inspect_step(project, recipe, step))
    }

    /// Returns the names that a rule or a verification reads.
    pub fn get_or_build_reads<T>(&self, of: &T, build: impl FnOnce() -> TemplateReads) -> Arc<TemplateReads> {
        get_or_build(&self.reads, std::ptr::from_ref(of) as usize, build)
    }
}

fn get_or_build<T>(map: &RwLock<HashMap<usize, Arc<T>>>, key: usize, build: impl FnOnce() -> T) -> Arc<T> {
    if let Some(known) = map.read().ok().and_then(|map| map.get(&key).cloned()) {
        return known;
    }
    let new = Arc::new(build());
    if let Ok(mut map) = map.write() {
        map.insert(key, new.clone());
    }
    new
}

fn inspect_step(project: &Project, recipe: &Recipe, step: &RecipeStep) -> StepTemplateInfo {
    let texts = list_step_templates(step);
    let mut all: Vec<(&str, TemplateForm)> = texts.iter().map(|(text, form, _)| (*text, *form)).collect();
    let file = read_template_file(project, recipe, step);
    let reads = match &file {
        // The path of the file depends on values, so it may read anything.
        Some(None) => TemplateReads::with_all_roots(),
        Some(Some(text)) => {
            all.push((text, TemplateForm::Template));
            collect_reads(project, all)
        }
        None => collect_reads(project, all),
    };
    let when = step.when.iter().map(|expr| (expr.source.as_str(), TemplateForm::Expression));
    let when = self::collect_reads(project, when);
    StepTemplateInfo { reads, when_per_item: when.has_root(TemplateRoot::Item) || when.has_root(TemplateRoot::Key) }
}
