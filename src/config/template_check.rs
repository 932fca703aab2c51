//! Checks the templates of recipes without hosts: every template compiles and reads only existing names, and stacks pass
//! only existing parameters.

use super::instances::{RecipeLibrary, build_unknown_param_diag, build_unknown_recipe_diag};
use super::template::{ProgramCache, TemplateForm, TemplateProgram, TemplateRead, TemplateRoot};
use super::tree_render::{build_template_diag, locate_range};
use super::{
    Recipe, RecipeStep, RecipeVerification, SourceExpr, StackUse, VerifyTarget, YamlData, YamlKey, YamlNode, scalar,
};
use crate::diag::{Diag, DiagCode, DiagList, SourceMap, Span, find_slip};
use crate::facts::FactShape;
use crate::model::HostName;
use indexmap::IndexMap;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Resolves the names that templates read.
pub(super) struct TemplateChecker<'w> {
    pub library: &'w RecipeLibrary,
    /// Names and texts of all built-in recipes, including those that no text names.
    pub built_in: &'w [(&'w str, &'w str)],
    /// Variables of all hosts and groups.
    pub vars: &'w BTreeSet<String>,
    /// Groups of the inventory.
    pub groups: &'w IndexMap<String, Vec<HostName>>,
    pub programs: &'w ProgramCache,
    pub sources: &'w SourceMap,
    /// Places of templates with errors. They are not run: that would only repeat the errors.
    pub broken: RefCell<HashSet<Span>>,
}

/// The context of a template, which decides what it may read.
#[derive(Clone, Copy)]
pub(super) enum TemplateLocation<'p> {
    /// `with` of an entry of the inventory.
    Entry,
    /// `uses` of a stack.
    Stack(&'p Recipe),
    /// Rules of a stack.
    StackRule(&'p Recipe),
    /// Rules and verification.
    Recipe(&'p Recipe, TemplateSubject),
    /// A step, with or without `each`.
    Step(&'p Recipe, bool, TemplateSubject),
}

/// The target that is evaluated or changed there.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum TemplateSubject {
    Hosts,
    Cluster,
    /// The cluster, with the one object of a verification.
    Object,
    /// The cluster, with several objects of a verification.
    Objects,
}

impl TemplateSubject {
    fn from_verify(verify: &RecipeVerification) -> Self {
        match &verify.about {
            Some(VerifyTarget::One(_)) => Self::Object,
            Some(VerifyTarget::All(_)) => Self::Objects,
            None => Self::from_scope(verify.of_cluster),
        }
    }

    fn from_scope(of_cluster: bool) -> Self {
        if of_cluster { Self::Cluster } else { Self::Hosts }
    }
}

impl TemplateChecker<'_> {
    /// Checks every template of a recipe.
    pub fn check_recipe(&self, recipe: &Recipe, diags: &mut DiagList) {
        super::cluster_member::check_cluster_names(recipe, self.programs, self.sources, diags);
        for rule in &recipe.rules {
            let at = match recipe.uses.is_empty() {
                true => TemplateLocation::Recipe(recipe, TemplateSubject::from_scope(rule.of_cluster)),
                false => TemplateLocation::StackRule(recipe),
            };
            rule.when.iter().chain([&rule.require]).for_each(|expr| self.check_expr(expr, at, diags));
            rule.shows.iter().for_each(|(text, span)| self.check_text(text, *span, at, diags));
        }
        for verify in &recipe.verify {
            self.check_verify(recipe, verify, diags);
        }
        recipe.steps.iter().for_each(|step| self.check_step(recipe, step, diags));
        recipe.uses.iter().for_each(|used| self.check_stack_use(recipe, used, diags));
        report_duplicate_exports(recipe, diags);
    }

    /// Checks a verification. `when` and the object's own fields are evaluated before the object is available.
    fn check_verify(&self, recipe: &Recipe, verify: &RecipeVerification, diags: &mut DiagList) {
        let (before, at) = (
            TemplateSubject::from_scope(verify.of_cluster),
            TemplateLocation::Recipe(recipe, TemplateSubject::from_verify(verify)),
        );
        let before = TemplateLocation::Recipe(recipe, before);
        verify.when.iter().for_each(|expr| self.check_expr(expr, before, diags));
        verify.about.iter().for_each(|about| self.check_tree(about.target_node(), before, diags));
        verify.expect.iter().for_each(|expr| self.check_expr(expr, at, diags));
        verify.check.iter().for_each(|node| self.check_tree(node, at, diags));
        verify.shows.iter().for_each(|(text, span)| self.check_text(text, *span, at, diags));
    }

    fn check_step(&self, recipe: &Recipe, step: &RecipeStep, diags: &mut DiagList) {
        let of = TemplateSubject::from_scope(super::cluster_step::is_cluster_step(step));
        let (once, turn) =
            (TemplateLocation::Step(recipe, false, of), TemplateLocation::Step(recipe, step.each.is_some(), of));
        step.each.iter().for_each(|expr| self.check_expr(expr, once, diags));
        step.when.iter().chain(&step.key).for_each(|expr| self.check_expr(expr, turn, diags));
        self.check_tree(&step.body, turn, diags);
        if let Some(effective) = &step.effective {
            effective.expect.iter().for_each(|expr| self.check_expr(expr, turn, diags));
            effective.check.iter().for_each(|node| self.check_tree(node, turn, diags));
        }
        for export in step.exports.values() {
            export.read.iter().for_each(|text| self.check_text(text, export.span, once, diags));
            export.value.iter().for_each(|expr| self.check_expr(expr, once, diags));
        }
    }

    fn check_stack_use(&self, recipe: &Recipe, used: &StackUse, diags: &mut DiagList) {
        let at = TemplateLocation::Stack(recipe);
        used.when.iter().for_each(|expr| self.check_expr(expr, at, diags));
        used.with.values().for_each(|(node, _)| self.check_tree(node, at, diags));
        match self.library.get(&used.recipe) {
            None => diags.push(build_unknown_recipe_diag(&used.recipe, used.span, self.library, self.built_in)),
            Some(other) => {
                for (name, (_, span)) in used.with.iter().filter(|(name, _)| !other.params.contains_key(*name)) {
                    diags.push(build_unknown_param_diag(&YamlKey { text: name.clone(), span: *span }, other));
                }
            }
        }
    }

    /// Checks the templates of a tree.
    pub fn check_tree(&self, node: &YamlNode, at: TemplateLocation<'_>, diags: &mut DiagList) {
        match &node.data {
            YamlData::Scalar { text, .. } if scalar::is_template(text) => self.check_text(text, node.span, at, diags),
            YamlData::Seq(items) => items.iter().for_each(|item| self.check_tree(item, at, diags)),
            YamlData::Map(entries) => entries.iter().for_each(|(_, node)| self.check_tree(node, at, diags)),
            _ => {}
        }
    }

    fn check_expr(&self, expr: &SourceExpr, at: TemplateLocation<'_>, diags: &mut DiagList) {
        let program = self.programs.get(&expr.source, TemplateForm::Expression);
        self.check_program(&program, &expr.source, expr.span, at, diags);
    }

    /// Checks one template.
    pub fn check_text(&self, text: &str, span: Span, at: TemplateLocation<'_>, diags: &mut DiagList) {
        let program = self.programs.get(text, TemplateForm::Template);
        self.check_program(&program, text, span, at, diags);
    }

    fn check_program(
        &self,
        program: &Arc<Result<TemplateProgram, super::TemplateError>>,
        source: &str,
        span: Span,
        at: TemplateLocation<'_>,
        diags: &mut DiagList,
    ) {
        let before = diags.count_errors();
        match program.as_ref() {
            Ok(program) => self.check_names(program, source, span, at, diags),
            Err(error) => diags.push(build_template_diag(error, source, span, self.sources)),
        }
        if diags.count_errors() > before {
            self.broken.borrow_mut().insert(span);
        }
    }

    fn check_names(
        &self,
        program: &TemplateProgram,
        source: &str,
        span: Span,
        at: TemplateLocation<'_>,
        diags: &mut DiagList,
    ) {
        program
            .name_errors()
            .iter()
            .for_each(|error| diags.push(build_template_diag(error, source, span, self.sources)));
        for (name, range) in program.read_groups() {
            if let Some(near) = self.find_meant_group(name) {
                let diag = Diag::warning(DiagCode::UnknownName, format!("the inventory has no group `{name}`"));
                let diag = diag.with_span(locate_range(range, source, span, self.sources));
                diags.push(diag.hint(format!("did you mean `{near}`?")));
            }
        }
        for read in program.reads() {
            if let Some(diag) = self.check_read(read, at) {
                diags.push(diag.with_span(locate_range(&read.range, source, span, self.sources)));
            }
        }
    }

    /// Returns the group that is meant by a name that no group has. A recipe may ask for groups that only other
    /// inventories have: other names are not reported.
    fn find_meant_group(&self, name: &str) -> Option<&str> {
        let names = || self.groups.keys().map(String::as_str).chain(["all"]);
        find_slip(name, names()).filter(|_| names().all(|known| known != name))
    }

    /// Returns the error of one path, without its place.
    fn check_read(&self, read: &TemplateRead, at: TemplateLocation<'_>) -> Option<Diag> {
        if let Some(why) = diagnose_forbidden_read(read.root, at) {
            return Some(why);
        }
        match (read.root, at) {
            (
                TemplateRoot::Params,
                TemplateLocation::Stack(recipe)
                | TemplateLocation::StackRule(recipe)
                | TemplateLocation::Recipe(recipe, _)
                | TemplateLocation::Step(recipe, ..),
            ) => diagnose_unknown_name(read, 0, recipe.params.keys().map(String::as_str))
                .or_else(|| self.check_param_path(recipe, read)),
            (TemplateRoot::Vars, _) if read.optional => None,
            (TemplateRoot::Vars, _) => {
                let diag = diagnose_unknown_name(read, 0, self.vars.iter().map(String::as_str))?;
                Some(if self.vars.is_empty() { diag.hint("no host or group has variables") } else { diag })
            }
            (TemplateRoot::Host, _) => diagnose_unknown_name(read, 0, ["name", "address", "groups"]),
            (TemplateRoot::Recipes, _) => {
                self.check_recipe_path(read, |recipe| recipe.params.keys().map(String::as_str).collect())
            }
            (TemplateRoot::Exports, _) if read.path.len() < 2 => {
                let diag = Diag::error(DiagCode::UnknownName, "`exports` needs a recipe and the name of an export");
                Some(diag.hint("write both as literals: `exports[\"kube-control\"].join`"))
            }
            (TemplateRoot::Exports, _) => self.check_recipe_path(read, list_export_names),
            (
                TemplateRoot::Facts,
                TemplateLocation::Recipe(_, TemplateSubject::Hosts)
                | TemplateLocation::Step(_, _, TemplateSubject::Hosts),
            ) => diagnose_fact_read(read),
            (TemplateRoot::Facts, _) => diagnose_cluster_fact_read(read),
            _ => None,
        }
    }

    /// Reports a field access on a parameter that is neither a map nor a list.
    fn check_param_path(&self, recipe: &Recipe, read: &TemplateRead) -> Option<Diag> {
        use super::ParamType::{List, Map};
        let param = recipe.params.get(read.path.first()?)?;
        let deeper = read.path.len() > 1 && !matches!(param.ty, List(_) | Map { .. });
        deeper.then(|| Diag::error(DiagCode::UnknownName, format!("parameter `{}` has no fields", param.name)))
    }

    fn check_recipe_path<'s>(
        &'s self,
        read: &TemplateRead,
        names: impl Fn(&'s Recipe) -> Vec<&'s str>,
    ) -> Option<Diag> {
        let missing = diagnose_unknown_name(read, 0, self.library.keys().map(String::as_str));
        if missing.is_some() {
            return missing;
        }
        let recipe = self.library.get(read.path.first()?)?;
        diagnose_unknown_name(read, 1, names(recipe))
    }
}

/// Returns the error if `root` is not available at `at`.
fn diagnose_forbidden_read(root: TemplateRoot, at: TemplateLocation<'_>) -> Option<Diag> {
    let (message, hint) = match (root, at) {
        (TemplateRoot::Params, TemplateLocation::Entry) => {
            ("`params` is not available here", "read `vars` or `host`: an entry of `apply` sets parameters")
        }
        (
            TemplateRoot::Facts
            | TemplateRoot::Recipes
            | TemplateRoot::Exports
            | TemplateRoot::Hosts
            | TemplateRoot::Members,
            TemplateLocation::StackRule(_),
        ) => (
            "rules of a stack can read only `params`, `vars` and `host`",
            "move the rule to a recipe that the stack uses",
        ),
        (TemplateRoot::Facts, TemplateLocation::Entry | TemplateLocation::Stack(_)) => {
            ("parameters cannot read facts", "read facts in the steps of a recipe")
        }
        (
            TemplateRoot::Recipes | TemplateRoot::Exports | TemplateRoot::Hosts | TemplateRoot::Members,
            TemplateLocation::Entry | TemplateLocation::Stack(_),
        ) => {
            ("parameters cannot read `recipes`, `exports`, `hosts` or `members`", "read them in the steps of a recipe")
        }
        (TemplateRoot::Object, TemplateLocation::Recipe(_, TemplateSubject::Object))
        | (TemplateRoot::Objects, TemplateLocation::Recipe(_, TemplateSubject::Objects)) => return None,
        (TemplateRoot::Object | TemplateRoot::Objects, _) => (
            "`object` and `objects` are available only in a verification that declares them",
            "declare it: `object: { api_version: …, kind: …, name: … }`",
        ),
        (TemplateRoot::Item | TemplateRoot::Key, TemplateLocation::Step(_, true, _)) => return None,
        (TemplateRoot::Item | TemplateRoot::Key, _) => {
            ("`item` and `key` are available only in a step with `each`", "add `each` to the step")
        }
        _ => return None,
    };
    Some(Diag::error(DiagCode::UnknownName, message).hint(hint))
}

/// Returns an error if the name at `depth` of the path is not in `names`.
fn diagnose_unknown_name<'n>(
    read: &TemplateRead,
    depth: usize,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<Diag> {
    let name = read.path.get(depth)?;
    let names: Vec<&str> = names.into_iter().collect();
    if names.contains(&name.as_str()) {
        return None;
    }
    let path =
        read.path[..=depth].iter().fold(read.root.name().to_owned(), |path, part| path + &format_subscript(part));
    Some(Diag::error(DiagCode::UnknownName, format!("`{path}` does not exist")).suggest_name(name, names))
}

fn format_subscript(part: &str) -> String {
    match super::identifier::is_identifier(part) {
        true => format!(".{part}"),
        false => format!("[\"{part}\"]"),
    }
}

fn diagnose_fact_read(read: &TemplateRead) -> Option<Diag> {
    if read.path.is_empty() {
        let diag = Diag::error(DiagCode::UnknownName, "`facts` needs the name of a fact");
        return Some(diag.hint("write the name as a literal: `facts.os`"));
    }
    if let Some(name) = read.path.first().filter(|name| crate::facts::is_cluster_fact(name)) {
        let diag =
            Diag::error(DiagCode::UnknownName, format!("`facts.{name}` is a fact of the cluster, not of a host"));
        return Some(diag.hint("read it in a step, rule or verification with `scope: cluster`"));
    }
    let all = crate::facts::all_facts();
    diagnose_unknown_name(read, 0, all.iter().map(|fact| fact.name)).or_else(|| {
        let fact = all.iter().find(|fact| Some(fact.name) == read.path.first().map(String::as_str))?;
        diagnose_fact_field(read, fact.shape, fact.fields)
    })
}

/// Checks a fact of the cluster. `member::check_names` reports facts that only hosts have.
fn diagnose_cluster_fact_read(read: &TemplateRead) -> Option<Diag> {
    let fact =
        crate::facts::cluster_facts().iter().find(|fact| Some(fact.name) == read.path.first().map(String::as_str))?;
    diagnose_fact_field(read, fact.shape, fact.fields)
}

/// Returns an error if the fact does not have the field.
fn diagnose_fact_field(read: &TemplateRead, shape: FactShape, fields: &[(&'static str, &str)]) -> Option<Diag> {
    let depth = match shape {
        FactShape::Map => 1,
        // A list may be indexed; the template engine reports any other access.
        FactShape::List if read.path.get(1).is_some_and(|part| part.parse::<usize>().is_ok()) => 2,
        FactShape::ByName => 2,
        FactShape::List | FactShape::Value => return None,
    };
    diagnose_unknown_name(read, depth, fields.iter().map(|(name, _)| *name))
}

fn list_export_names(recipe: &Recipe) -> Vec<&str> {
    recipe.steps.iter().flat_map(|step| step.exports.keys().map(String::as_str)).collect()
}

fn report_duplicate_exports(recipe: &Recipe, diags: &mut DiagList) {
    let mut seen: IndexMap<&str, Span> = IndexMap::new();
    for export in recipe.steps.iter().flat_map(|step| step.exports.values()) {
        if let Some(first) = seen.insert(&export.name, export.span) {
            let diag =
                Diag::error(DiagCode::Duplicate, format!("recipe `{}` exports `{}` twice", recipe.name, export.name));
            diags.push(
                diag.with_span(export.span).label("exported again here").with_other_span(first, "first exported here"),
            );
        }
    }
}
