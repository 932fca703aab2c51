//! Loads a project: takes the path of an inventory, and returns a checked project or all errors.

use super::builtin_data::BUILTIN_PATH;
use super::declaration_checks::{DeclarationChecks, add_applied_at};
use super::expand::{ExpandedStep, ExpansionInputs, ExpansionState, StepExpander};
use super::file_access::{build_unreadable_diag, confine_path, describe_io_error, read_text_file};
use super::instances::{self, AppliedRecipes, RecipeLibrary};
use super::inventory::selector::SelectorUniverse;
use super::inventory::test_launch::LaunchCluster;
use super::inventory::{self, RawInventory, ResolvedInventory};
use super::load_context::LoadContext;
use super::load_options::LoadOptions;
use super::local_files::LocalFileStore;
use super::locked_digests::LockedDigests;
use super::step_conflicts::{self, ConflictFinder};
use super::template::ProgramCache;
use super::template_check::{TemplateChecker, TemplateLocation};
use super::written_values::WrittenValues;
use super::{
    ExportedValues, FactSource, GeneratedRecipe, Host, Project, Recipe, RecipeInstance, RecipeStep, RolloutPolicy,
    TestSuite, YamlData, YamlNode, cluster_member, generated_entries, graph_links, recipe, recipe_cycles, recipe_reads,
    step_body_check,
};
use crate::acceptance::FabricLayout;
use crate::diag::{Diag, DiagCode, DiagList, DiagSeverity, FileId, SourceMap, Span};
use crate::graph::Graph;
use crate::model::{HostName, map_parallel};
use camino::{Utf8Path, Utf8PathBuf};
use indexmap::IndexMap;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The built-in sets of acceptance tests.
const BUILTIN_SETS: [&str; 5] = ["quick", "burn-in", "full", "collectives", "connectivity"];

/// Reads an inventory and its recipes. Finds all errors and warnings of all files, sorted by place. Returns a project
/// only if there are no errors.
pub fn load_project(path: &Utf8Path, options: &LoadOptions<'_>) -> (Option<Project>, DiagList, SourceMap) {
    load_with_context(path, LoadContext::new(options, find_inventory_root(path)))
}

/// Like [`load_project`], to compute digests: artifacts without a digest have
/// [`Sha256Digest::unknown`](crate::model::Sha256Digest::unknown).
pub fn load_to_learn_digests(path: &Utf8Path, options: &LoadOptions<'_>) -> (Option<Project>, DiagList, SourceMap) {
    load_with_context(path, LoadContext { learn: true, ..LoadContext::new(options, find_inventory_root(path)) })
}

/// Like [`load_project`], with the built-in sets of acceptance tests.
pub fn load_for_tests(path: &Utf8Path, options: &LoadOptions<'_>) -> (Option<Project>, DiagList, SourceMap) {
    load_with_context(path, LoadContext { tests: true, ..LoadContext::new(options, find_inventory_root(path)) })
}

/// Like [`load_project`], with recipes that forge wrote in place of everything that the inventory applies.
pub fn load_for_undo(
    path: &Utf8Path,
    recipes: &[GeneratedRecipe],
    options: &LoadOptions<'_>,
) -> (Option<Project>, DiagList, SourceMap) {
    let cx = LoadContext { generated: Some(recipes), ..LoadContext::new(options, find_inventory_root(path)) };
    load_with_context(path, cx)
}

fn load_with_context(path: &Utf8Path, mut cx: LoadContext<'_>) -> (Option<Project>, DiagList, SourceMap) {
    let mut project = read_project(path, &mut cx);
    if let Some(project) = project.as_mut().filter(|_| !cx.diags.has_errors()) {
        cx.read_planned_secrets(project);
    }
    let hidden: Vec<Span> = cx.diags.0.iter().flat_map(|diag| diag.hidden.iter().copied()).collect();
    let sources = project.as_mut().map_or(&mut cx.sources, |project| &mut project.sources);
    hidden.into_iter().for_each(|span| sources.hide_span(span));
    let diags = sort_diags(drop_unreadable_recipe_diags(cx.diags, &cx.unread));
    match project {
        Some(mut project) if !diags.has_errors() => {
            project.secrets = cx.secrets;
            project.secret_variables = cx.secret_variables.into();
            if let Some(access) = &mut project.kubernetes {
                access.withheld = project.secret_variables.clone();
            }
            if let Some(pods) = &mut project.worker_pods {
                pods.access.withheld = project.secret_variables.clone();
            }
            let sources = project.sources.clone();
            (Some(project), diags, sources)
        }
        Some(project) => (None, diags, project.sources),
        None => (None, diags, cx.sources),
    }
}

/// Returns the canonical path of the inventory's folder. A path that does not exist is reported later, when it is read.
fn find_inventory_root(path: &Utf8Path) -> Utf8PathBuf {
    let folder = match path.parent() {
        Some(folder) if !folder.as_str().is_empty() => folder,
        _ => Utf8Path::new("."),
    };
    folder.canonicalize_utf8().unwrap_or_else(|_| folder.to_owned())
}

/// Drops "not found" errors of recipes whose files could not be read: the read error is already reported.
fn drop_unreadable_recipe_diags(mut diags: DiagList, unread: &[String]) -> DiagList {
    let missing: Vec<String> = unread.iter().map(|name| format!("recipe `{name}` not found")).collect();
    diags.0.retain(|diag| diag.code != DiagCode::UnknownRecipe || !missing.contains(&diag.message));
    diags
}

/// Sorts by place and drops duplicates: several hosts report the same error.
fn sort_diags(diags: DiagList) -> DiagList {
    let mut seen = HashSet::new();
    let mut diags: Vec<Diag> =
        diags.0.into_iter().filter(|diag| seen.insert((diag.code, diag.span, diag.message.clone()))).collect();
    diags.sort_by_key(|diag| (diag.span.is_some(), diag.span, diag.severity == DiagSeverity::Warning));
    DiagList(diags)
}

/// Adds a hint for users of tools that take host names in place of the inventory.
fn hint_host_selection(path: &Utf8Path, diags: &mut DiagList) {
    let like_hosts = path.extension().is_none() && !path.as_str().contains('/') && !path.exists();
    if let Some(diag) = diags.0.pop_if(|_| like_hosts) {
        diags.0.push(diag.hint(format!("to select hosts, use `--on {path}`")));
    }
}

/// Adds a hint for an INI inventory of Ansible: its first line with content names a group.
fn hint_conversion(path: &Utf8Path, diags: &mut DiagList) {
    let is_content = |line: &&str| !line.is_empty() && !line.starts_with(['#', ';']);
    let text = read_text_file(path).unwrap_or_default();
    let first = text.lines().map(str::trim).find(is_content).unwrap_or_default();
    if let Some(diag) = diags.0.pop_if(|_| first.starts_with('[') && first.ends_with(']')) {
        diags.0.push(diag.hint(inventory::CONVERT_INVENTORY_HINT));
    }
}

fn read_project(path: &Utf8Path, cx: &mut LoadContext<'_>) -> Option<Project> {
    let Some((_, node)) = cx.read_yaml(path, path, None) else {
        hint_host_selection(path, &mut cx.diags);
        hint_conversion(path, &mut cx.diags);
        return None;
    };
    let mut inventory = inventory::read_inventory(&node, cx);
    let library = match cx.generated {
        Some(recipes) => generated_entries::replace_entries(&mut inventory, recipes, cx),
        None => read_library(&inventory, path, cx),
    };
    let (cluster, rollout) = (std::mem::take(&mut inventory.cluster), inventory.rollout.take());
    let drift = inventory.drift.take().unwrap_or_default();
    let undo = inventory.undo.unwrap_or_default();
    let (kubernetes, named_api) = (inventory.kubernetes.take(), inventory.names_api);
    let worker_pods = inventory.worker_pods.take();
    let resolved = inventory::resolve_inventory(inventory, cx);
    rollout.iter().for_each(|rollout| inventory::check_rollout(rollout, resolved.groups.keys(), cx));
    let universe = SelectorUniverse::from_hosts_and_groups(&resolved.hosts, &resolved.groups);
    let fabric = inventory::read_fabric(find_section(&node, "fabric"), &universe, &resolved.hosts, cx);
    let launch = read_launch_cluster(named_api, rollout.as_ref(), &resolved);
    let tests = read_tests((&node, rollout.as_ref(), &launch), &universe, (&resolved, &fabric), cx);
    let programs = ProgramCache::default();
    let mut broken = check_recipes(&library, &resolved, &programs, cx);
    let idle = find_unapplied_builtins(&library, &resolved);
    cx.diags.0.retain(|diag| diag.span.is_none_or(|span| !idle.contains(&span.file)));
    let applied = instances::place_entries(&resolved, &library, &programs, &broken, cx);
    let mut project = Project {
        cluster,
        hosts: resolved.hosts,
        groups: resolved.groups,
        group_vars: resolved.group_vars,
        library: library.clone(),
        rollout: rollout.unwrap_or_default(),
        drift,
        undo,
        fabric,
        tests,
        kubernetes,
        worker_pods,
        programs,
        generated: cx.generated.is_some(),
        digests: LockedDigests::read_lock_file(path, &cx.root, cx.learn, &mut cx.diags),
        ..empty_project(path, cx)
    };
    connect_recipes(&mut project, applied, &library, named_api, &mut broken, &mut cx.diags);
    expand_without_facts(&project, &broken, &mut cx.diags);
    project.files.close_reads();
    Some(project)
}

/// Reads `tests:`, and for a run of tests the built-in sets that it does not replace.
fn read_tests(
    (root, rollout, cluster): (&YamlNode, Option<&RolloutPolicy>, &LaunchCluster),
    universe: &SelectorUniverse<'_>,
    (resolved, fabric): (&ResolvedInventory, &FabricLayout),
    cx: &mut LoadContext<'_>,
) -> TestSuite {
    let hosts: Vec<HostName> = resolved.hosts.keys().cloned().collect();
    let scope = inventory::tests::TestScope { universe, hosts: &hosts, fabric, cluster, is_builtin: false };
    let mut suite = inventory::tests::read_test_suite(find_section(root, "tests"), &scope, cx);
    rollout.iter().for_each(|rollout| inventory::check_test_sets(rollout, &suite, cx));
    let builtin: &[&str] = if cx.tests { &BUILTIN_SETS } else { &[] };
    for name in builtin {
        if !suite.sets.contains_key(*name)
            && let Some(entries) = inventory::tests::read_builtin_set(name, &scope, cx)
        {
            suite.sets.insert((*name).to_owned(), entries);
        }
    }
    suite
}

/// Returns which hosts are nodes, if the rollout names their group.
fn read_launch_cluster(
    is_declared: bool,
    rollout: Option<&RolloutPolicy>,
    resolved: &ResolvedInventory,
) -> LaunchCluster {
    let group = rollout.and_then(|rollout| rollout.kubernetes.as_ref()).map(|drain| &drain.group.0);
    let nodes = group.and_then(|group| Some((group.clone(), resolved.groups.get(group)?.iter().cloned().collect())));
    LaunchCluster { is_declared, nodes }
}

fn find_section<'n>(root: &'n YamlNode, name: &str) -> Option<&'n YamlNode> {
    let YamlData::Map(entries) = &root.data else { return None };
    entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
}

/// Returns a project without any declarations.
pub(super) fn empty_project(path: &Utf8Path, cx: &LoadContext<'_>) -> Project {
    Project {
        sources: cx.sources.clone(),
        inventory: path.to_owned(),
        cluster: String::new(),
        hosts: IndexMap::new(),
        groups: IndexMap::new(),
        group_vars: IndexMap::new(),
        library: RecipeLibrary::new(),
        recipes: IndexMap::new(),
        instances: IndexMap::new(),
        graph: Graph::default(),
        ties: Default::default(),
        removals: Default::default(),
        rollout: Default::default(),
        drift: Default::default(),
        undo: Default::default(),
        fabric: Default::default(),
        tests: Default::default(),
        kubernetes: None,
        worker_pods: None,
        secrets: Default::default(),
        secret_variables: Default::default(),
        programs: ProgramCache::default(),
        generated: false,
        files: LocalFileStore::new(cx.root.clone()),
        digests: Default::default(),
    }
}

/// Reads the recipes of the inventory's tree, and the built-in recipes that any file names.
fn read_library(inventory: &RawInventory, path: &Utf8Path, cx: &mut LoadContext<'_>) -> RecipeLibrary {
    let mut library = RecipeLibrary::new();
    for (file, shown) in list_recipe_files(inventory, path, cx) {
        let node = cx.read_yaml(&file, &shown, None);
        match node.and_then(|(_, node)| recipe::read_recipe(&node, &file, cx)) {
            Some(recipe) => add_recipe(recipe, &mut library, cx),
            None => cx.unread.extend(file.file_stem().map(str::to_owned)),
        }
    }
    let mut texts: Vec<String> = cx.sources.files().map(|(_, _, text)| text.to_owned()).collect();
    while let Some(text) = texts.pop() {
        for (name, text) in find_mentioned_recipes(&text, cx.options.embedded) {
            if !library.contains_key(name) && !cx.unread.iter().any(|unread| unread == name) {
                read_builtin_recipe(name, text, &mut library, cx);
                texts.push(text.to_owned());
            }
        }
    }
    library
}

/// Returns the built-in recipes that a text names. Only these are read, so that unused recipes cost nothing.
pub(super) fn find_mentioned_recipes<'e>(text: &str, embedded: &[(&'e str, &'e str)]) -> Vec<(&'e str, &'e str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let words: HashSet<&str> = text.split(|c| !is_part(c)).collect();
    embedded.iter().copied().filter(|(name, _)| words.contains(name)).collect()
}

/// Reads a built-in recipe.
pub(super) fn read_builtin_recipe(name: &str, text: &str, library: &mut RecipeLibrary, cx: &mut LoadContext<'_>) {
    let shown = Utf8PathBuf::from(format!("{BUILTIN_PATH}/{name}.yaml"));
    match cx.parse_yaml(&shown, text.to_owned()).and_then(|(_, node)| recipe::read_recipe(&node, &shown, cx)) {
        Some(recipe) => add_recipe(recipe, library, cx),
        None => cx.unread.push(name.to_owned()),
    }
}

fn add_recipe(recipe: Recipe, library: &mut RecipeLibrary, cx: &mut LoadContext<'_>) {
    match library.get(&recipe.name) {
        Some(first) => {
            let diag = Diag::error(DiagCode::Duplicate, format!("recipe `{}` is defined twice", recipe.name))
                .with_span(recipe.span);
            cx.push_diag(diag.label("defined again here").with_other_span(first.span, "first defined here"));
        }
        None => {
            library.insert(recipe.name.clone(), Arc::new(recipe));
        }
    }
}

/// Returns the files of recipes, sorted, each with the path that messages show.
fn list_recipe_files(
    inventory: &RawInventory,
    path: &Utf8Path,
    cx: &mut LoadContext<'_>,
) -> Vec<(Utf8PathBuf, Utf8PathBuf)> {
    let beside = path.parent().unwrap_or(Utf8Path::new(""));
    let folders: Vec<(String, Option<Span>)> = match &inventory.recipes {
        Some(named) => named.iter().map(|(name, span)| (name.clone(), Some(*span))).collect(),
        None if cx.root.join("recipes").is_dir() => vec![("recipes".to_owned(), None)],
        None => Vec::new(),
    };
    let mut files = Vec::new();
    for (name, span) in folders {
        match list_folder_recipes(&cx.root, &name, span) {
            Ok(found) => files.extend(found.into_iter().map(|file| {
                let shown = to_shown_path(beside, &cx.root, &file);
                (file, shown)
            })),
            Err(diag) => cx.push_diag(*diag),
        }
    }
    files
}

/// Returns the canonical paths of a folder's recipes. A symbolic link out of the tree is an error, as for any other
/// file.
fn list_folder_recipes(root: &Utf8Path, name: &str, span: Option<Span>) -> Result<Vec<Utf8PathBuf>, Box<Diag>> {
    let at = span.unwrap_or(Span { file: crate::diag::FileId(0), start: 0, end: 0 });
    let folder = confine_path(root, name, at)?;
    let files = list_yaml_files(&folder).map_err(|why| Box::new(build_unreadable_diag(name, &why, span)))?;
    files.iter().map(|file| confine_path(root, file.as_str(), at)).collect()
}

fn to_shown_path(beside: &Utf8Path, root: &Utf8Path, file: &Utf8Path) -> Utf8PathBuf {
    file.strip_prefix(root).map_or_else(|_| file.to_owned(), |inner| beside.join(inner))
}

pub(super) fn list_yaml_files(folder: &Utf8Path) -> Result<Vec<Utf8PathBuf>, String> {
    let mut files = Vec::new();
    for entry in folder.read_dir_utf8().map_err(|error| describe_io_error(&error))? {
        let path = entry.map_err(|error| describe_io_error(&error))?.into_path();
        if matches!(path.extension(), Some("yaml" | "yml")) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Checks all declarations without the values of any host. Returns the places of templates with errors.
pub(super) fn check_recipes(
    library: &RecipeLibrary,
    resolved: &ResolvedInventory,
    programs: &ProgramCache,
    cx: &mut LoadContext<'_>,
) -> HashSet<Span> {
    let vars: BTreeSet<String> = resolved.hosts.values().flat_map(|host| host.vars.keys().cloned()).collect();
    let mut diags = DiagList::default();
    let built_in = cx.options.embedded;
    let (groups, sources) = (&resolved.groups, &cx.sources);
    let world =
        TemplateChecker { library, built_in, vars: &vars, groups, programs, sources, broken: Default::default() };
    library.values().for_each(|recipe| world.check_recipe(recipe, &mut diags));
    for (_, node) in resolved.entries.iter().flat_map(|entry| &entry.raw.with) {
        world.check_tree(node, TemplateLocation::Entry, &mut diags);
    }
    recipe_cycles::check_recipe_cycles(library, &mut diags);
    step_body_check::check_step_bodies(library, &mut diags);
    graph_links::check_targets(library, &mut diags);
    let broken = world.broken.take();
    cx.diags.0.append(&mut diags.0);
    broken
}

/// Returns the files of built-in recipes that no entry applies. They are read because some text names them. Their
/// errors are dropped: for example, an inventory may override a recipe with one that lacks a parameter which they pass.
fn find_unapplied_builtins(library: &RecipeLibrary, resolved: &ResolvedInventory) -> HashSet<FileId> {
    let mut open: Vec<&str> = resolved.entries.iter().map(|entry| entry.raw.recipe.0.as_str()).collect();
    let mut applied: HashSet<&str> = HashSet::new();
    while let Some(name) = open.pop() {
        if applied.insert(name) {
            let uses = library.get(name).into_iter().flat_map(|recipe| &recipe.uses);
            open.extend(uses.map(|used| used.recipe.as_str()));
        }
    }
    let is_idle =
        |recipe: &&Arc<Recipe>| recipe.path.starts_with(BUILTIN_PATH) && !applied.contains(recipe.name.as_str());
    library.values().filter(is_idle).map(|recipe| recipe.span.file).collect()
}

/// Builds the dependency graph and sorts the instances of each host by it. Adds the places of templates to `broken` that
/// read the parameters or exported values of a recipe that is not applied: their evaluation would only repeat that.
fn connect_recipes(
    project: &mut Project,
    applied: AppliedRecipes,
    library: &RecipeLibrary,
    named_api: bool,
    broken: &mut HashSet<Span>,
    diags: &mut DiagList,
) {
    project.recipes = applied.recipes.clone();
    let known = |name: &str| library.get(name).is_some_and(|recipe| recipe.uses.is_empty());
    let mut lacking = DiagList::default();
    graph_links::check_applied(&applied, known, graph_links::list_host_requirements, &mut lacking);
    let reads = |recipe: &Recipe| recipe_reads::find_read_parameters(recipe, project);
    broken.extend(graph_links::check_applied(&applied, known, reads, &mut lacking));
    broken.extend(graph_links::check_exports(&applied, known, project, &mut lacking));
    broken.extend(graph_links::check_barriers(&applied, known, &mut lacking));
    cluster_member::check_cluster_needs(&applied.recipes, library, &mut lacking);
    // An entry with a misspelled name applies no recipe. That others lack it is not a second mistake.
    if diags.0.iter().all(|diag| diag.code != DiagCode::UnknownRecipe) {
        diags.0.extend(lacking.0);
    }
    project.graph = graph_links::build_graph(&applied, project, diags);
    let ties = |recipe: &Arc<Recipe>| (recipe.name.clone(), recipe_reads::find_read_versions(recipe, library, project));
    project.ties = applied.recipes.values().map(ties).filter(|(_, of)| !of.is_empty()).collect();
    project.removals = graph_links::build_removal_graphs(&applied, &project.graph);
    let mut position: HashMap<String, usize> = HashMap::new();
    for (at, index) in project.graph.order().iter().enumerate() {
        position.entry(project.graph.step_id(*index).recipe.to_string()).or_insert(at);
    }
    project.instances = applied.instances;
    cluster_member::add_cluster_member(project, named_api, diags);
    for own in project.instances.values_mut() {
        own.sort_by_key(|instance| position.get(&instance.recipe.name).copied().unwrap_or(usize::MAX));
    }
}

/// Expands every step and evaluates every rule without facts, to report errors that do not depend on a host's state.
/// Also reads every local file, so that later stages do no file I/O.
fn expand_without_facts(project: &Project, broken: &HashSet<Span>, diags: &mut DiagList) {
    let expander = StepExpander::new(project);
    let exports = ExportedValues::new();
    let known = ExpansionInputs { facts: FactSource::NotYet, exports: &exports };
    let mut claims = ConflictFinder::default();
    let written = Mutex::new(WrittenValues::new(project));
    let instances = project.instances.iter().filter_map(|(name, own)| Some((project.hosts.get(name)?, own)));
    let hosts = instances.map(|(host, own)| {
        // Missing and invalid parameters are already reported; errors that result from them are not.
        let whole: Vec<_> = own.iter().filter(|own| own.params.len() == own.recipe.params.len()).cloned().collect();
        let is_repeated = claims.was_checked(&expander, &whole);
        HostDeclarations { host, is_incomplete: whole.len() < own.len(), whole, is_repeated }
    });
    let hosts: Vec<HostDeclarations<'_>> = hosts.collect();
    let found = map_parallel(&hosts, |declared| {
        let checks = DeclarationChecks { expander: &expander, host: declared.host, broken, known: &known };
        declared.find_mistakes(&checks, &written)
    });
    diags.0.extend(found.into_iter().flatten());
}

/// The recipes of one host.
struct HostDeclarations<'p> {
    host: &'p Host,
    /// Those whose parameters all have values.
    whole: Vec<Arc<RecipeInstance>>,
    /// Whether others have invalid parameters.
    is_incomplete: bool,
    /// Whether an earlier host has the same steps.
    is_repeated: bool,
}

impl HostDeclarations<'_> {
    fn find_mistakes(&self, checks: &DeclarationChecks<'_, '_>, written: &Mutex<WrittenValues<'_>>) -> Vec<Diag> {
        let mut diags = DiagList::default();
        self.whole.iter().for_each(|instance| checks.check_rules(instance, &mut diags));
        let has_bad_values = self.is_incomplete || diags.0.iter().any(is_failed_rule);
        if !self.is_repeated {
            self.check_steps(checks, written, &mut diags);
        }
        // A recipe that reads the rejected value of another one finds no parameter, or no row of a table. Misspelled
        // names of parameters are found before, in the text.
        diags.0.retain(|diag| !has_bad_values || diag.code != DiagCode::UnknownName);
        diags.0
    }

    fn check_steps(
        &self,
        checks: &DeclarationChecks<'_, '_>,
        written: &Mutex<WrittenValues<'_>>,
        diags: &mut DiagList,
    ) {
        self.whole.iter().for_each(|instance| checks.check_verifications(instance, diags));
        let steps = self.whole.iter().flat_map(|own| own.recipe.steps.iter().map(move |step| (own, step)));
        let mut turns = Vec::new();
        for (instance, step) in steps {
            let expanded = checks.expander.expand_step(self.host, instance, step, checks.known);
            let is_broken = is_broken_step(step, checks.broken);
            checks.check_export_scripts(instance, step, diags);
            for turn in expanded.iter() {
                report_step_mistakes(turn, instance, (step, is_broken), written, diags);
                checks.check_effective((instance, step), turn, diags);
            }
            turns.push((step, expanded));
        }
        step_conflicts::check_host(self.host, &turns, diags);
    }
}

fn is_failed_rule(diag: &Diag) -> bool {
    diag.code == DiagCode::RuleFailed && diag.severity == DiagSeverity::Error
}

/// Reports whether the check of templates found an error in a step.
fn is_broken_step(step: &RecipeStep, broken: &HashSet<Span>) -> bool {
    let exprs = step.when.iter().chain(&step.each).chain(&step.key);
    // The span of the step stands for its template file.
    let own = exprs.map(|expr| expr.span).chain([step.span]);
    own.into_iter().any(|span| broken.contains(&span)) || instances::is_broken(&step.body, broken)
}

fn report_step_mistakes(
    turn: &ExpandedStep,
    instance: &RecipeInstance,
    (step, is_broken): (&RecipeStep, bool),
    written: &Mutex<WrittenValues<'_>>,
    diags: &mut DiagList,
) {
    if let ExpansionState::Resource(resource) = &turn.state
        && let Some(caution) = resource.declaration_warning()
    {
        diags.push(add_applied_at(&caution.with_span(step.body.span), instance));
    }
    if let ExpansionState::Invalid(found) = &turn.state {
        // `recipe::step` already reports a command without a check, and `template_check` a template that cannot be
        // evaluated, after which its field is missing.
        let new = found.iter().filter(|diag| match diag.code {
            DiagCode::CommandWithoutCheck => false,
            DiagCode::BadTemplate | DiagCode::UnknownName | DiagCode::MissingKey => !is_broken,
            _ => true,
        });
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        diags.0.extend(
            new.map(|diag| {
                written.move_to_param(diag, instance, step).unwrap_or_else(|| add_applied_at(diag, instance))
            }),
        );
    }
}
