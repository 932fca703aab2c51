//! One pass over the turns of a host, in order, that carries what earlier turns predict.

use super::case::{Case, Turn};
use super::judge::{Ahead, Ruling, judge, unknown};
use super::model::{Envelope, Foresight, StepPlan};
use super::outside::{Outside, Status, Told};
use super::packages::PackageChanges;
use super::relied;
use super::span::above;
use super::verify::unproven;
use super::window::{self, Scope as WindowScope, Stage};
use crate::config::{Instance, Judged, Project, Rule, State};
use crate::graph::{Edge, StepIndex, Why};
use crate::model::{Disruption, HostName, Phase, Scope, SecretStore, StepId, Untrusted, Value, Verdict};
use crate::resource::{Judgement, Provision};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) struct Walk<'w, 'a> {
    case: &'w Case<'a>,
    turns: &'w [Turn<'a>],
    outside: &'w Outside<'w>,
    ahead: Ahead,
    /// Turns that are going to change in ways that nobody declares in full.
    opaque: BTreeSet<StepId>,
    /// Turns that are going to change packages, and how.
    packages: BTreeMap<StepId, PackageChanges>,
    /// Turns that are looked at again and are as declared now.
    precautions: BTreeSet<StepId>,
    /// Turns that are going to wait and change nothing.
    waits: BTreeSet<StepId>,
    /// What each step came to, worst of its turns.
    status: BTreeMap<StepIndex, Status>,
    /// Of steps that are as desired but stand behind one that gets nowhere: that one.
    behind: BTreeMap<StepIndex, String>,
    /// Recipes that a rule forbids here, or what the host is.
    ruled: BTreeMap<String, Judgement>,
    /// What is known of the host's window.
    window: &'w WindowScope,
}

impl<'w, 'a> Walk<'w, 'a> {
    /// `twin` says of a machine with several names that nothing runs on it.
    pub fn new(
        case: &'w Case<'a>,
        turns: &'w [Turn<'a>],
        outside: &'w Outside<'w>,
        twin: Option<Judgement>,
        window: &'w WindowScope,
    ) -> Self {
        let mut ahead = Ahead::default();
        ahead.predicted.exporters = outside.exporters().clone();
        let ruled = |i: &Arc<Instance>| twin.clone().or_else(|| rule(case, i));
        let ruled = case.instances().iter().filter_map(|i| Some((i.recipe.name.clone(), ruled(i)?))).collect();
        let (opaque, packages) = (BTreeSet::new(), BTreeMap::new());
        let (precautions, waits) = (BTreeSet::new(), BTreeSet::new());
        let (status, behind) = (BTreeMap::new(), BTreeMap::new());
        Self { case, turns, outside, ahead, opaque, packages, precautions, waits, status, behind, ruled, window }
    }

    /// Plans every turn, and tells other hosts what they wait for.
    pub fn run(mut self, told: &mut Told) -> Vec<StepPlan> {
        let turns = self.turns;
        let mut steps = Vec::with_capacity(turns.len());
        for turn in turns {
            let step = self.turn(turn);
            if step.acts() && !turn.step.exports.is_empty() && self.case.seen.account.is_none() {
                told.exporters.insert(step.id.recipe.to_string());
            }
            steps.push(step);
        }
        self.tell(told);
        steps
    }

    fn tell(&self, told: &mut Told) {
        let graph = self.case.graph;
        for (step, status) in &self.status {
            let Some(proof) = self.outside.waited_for(*step) else { continue };
            let proven = proof && *status == Status::Through && self.unproven(&graph.step(*step).recipe).is_none();
            let status = match proven {
                _ if self.refused(*step) => Status::Stopped,
                true => Status::Verified,
                false => *status,
            };
            told.status.entry(*step).or_default().insert(self.case.host.name.clone(), status);
        }
    }

    /// Whether a step is to change on a host where forge may change nothing: those who wait for it wait in vain.
    fn refused(&self, step: StepIndex) -> bool {
        let id = self.case.ground.project.graph.step(step);
        let changing = || self.ahead.changing.iter().any(|c| c.recipe == id.recipe && c.step == id.step);
        self.case.seen.account.is_some() && changing()
    }

    fn turn(&mut self, turn: &Turn<'a>) -> StepPlan {
        let needed = match self.ahead.changing.is_empty() {
            // Nothing is there to build on.
            true => Vec::new(),
            false => self.needed(turn),
        };
        // A wait takes nothing away from the next wait, and a precaution most often has nothing to do.
        let counts = |id: &StepId| !self.precautions.contains(id) && (!is_wait(turn) || !self.waits.contains(id));
        self.ahead.predicted.after = self.changing_before(&needed, counts).map(ToString::to_string);
        self.ahead.opaque = self.changing_before(&needed, |id| self.opaque.contains(id)).map(ToString::to_string);
        self.ahead.package = self.packages_before(turn, &needed);
        let ruling = match self.ruled.get(&turn.instance.recipe.name) {
            Some(judgement) => Ruling {
                judgement: judgement.clone(),
                basis: String::new(),
                until: None,
                foresight: Foresight::Predicted,
            },
            None => self.asked_everywhere(turn, judge(self.case, turn, self.turns, &self.ahead)),
        };
        let ruling = window::brought_back(turn, ruling, self.window);
        let stopped = self.stopped_by(turn);
        // What is as desired is seen to be so: it waits for nothing itself.
        let (behind, waits_for) = match ruling.judgement.verdict.is_settled() {
            true => (stopped, None),
            false => (None, stopped),
        };
        let bases = self.bases(turn, &ruling);
        let mut step = step_plan(self.outside.spans.steps.place(turn.index), turn, ruling, waits_for);
        (step.before, step.after) = bases;
        step.held = self.window.held(&step);
        self.note(turn, &step, behind);
        step
    }

    /// Returns what a changing step rests on and comes to, for a plan that is kept.
    fn bases(&self, turn: &Turn<'_>, ruling: &Ruling) -> (Vec<relied::Relied>, Option<String>) {
        match self.case.ground.policy.bases && ruling.judgement.verdict == Verdict::Change {
            true => (relied::relied(self.case, turn, &ruling.judgement), relied::after(turn)),
            false => (Vec::new(), None),
        }
    }

    /// A `one` step that is to be done here may have been done on a host that does not answer, or that this run does not
    /// look at: then nobody can tell whether there is something to do. A record says that it was done here.
    fn asked_everywhere(&self, turn: &Turn<'_>, mut ruling: Ruling) -> Ruling {
        let known = || self.case.made(&turn.expanded.id);
        if turn.step.scope != Scope::One
            || turn.instance.absent
            || ruling.judgement.verdict != Verdict::Change
            || known()
        {
            return ruling;
        }
        let members = self.outside.spans.members;
        let all = || turn.instance.selection.iter();
        let cut: Vec<HostName> = all().filter(|host| !members.contains(*host)).cloned().collect();
        let silent = all().filter(|host| members.contains(*host) && !self.outside.is_observed(host));
        let silent: Vec<HostName> = silent.cloned().collect();
        if let Some(judgement) = elsewhere(&silent, &cut) {
            ruling.judgement = judgement;
            ruling.until = None;
        }
        ruling
    }

    /// Returns the recipes that a turn builds on: its own, and those it needs.
    fn needed(&self, turn: &Turn<'_>) -> Vec<&'w str>
    where
        'a: 'w,
    {
        let graph = self.case.graph;
        let edges = graph.waits_for(turn.index).filter(|edge| edge.why != Why::After);
        let mut needed: Vec<&str> = edges.map(|edge| &*graph.step(edge.from).recipe).collect();
        needed.push(&graph.step(turn.index).recipe);
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// Returns the last earlier step of the recipes `needed` that is going to change.
    fn changing_before(&self, needed: &[&str], admits: impl Fn(&StepId) -> bool) -> Option<&StepId> {
        let builds_on = |id: &&StepId| needed.binary_search(&&*id.recipe).is_ok() && admits(id);
        self.ahead.changing.iter().rfind(builds_on)
    }

    /// Returns the last earlier step of the recipes `needed` that changes packages, and what all of them do. What is done
    /// once for many hosts is not done again for a package of one.
    fn packages_before(&self, turn: &Turn<'_>, needed: &[&str]) -> Option<(StepId, PackageChanges)> {
        if self.packages.is_empty() || turn.step.scope != Scope::Host {
            return None;
        }
        let step = self.changing_before(needed, |id| self.packages.contains_key(id))?;
        let own = self.packages.iter().filter(|(id, _)| needed.binary_search(&&*id.recipe).is_ok());
        Some((step.clone(), own.fold(PackageChanges::default(), |all, (_, one)| all.and(*one))))
    }

    /// Returns the step that keeps `turn` from running.
    fn stopped_by(&self, turn: &Turn<'_>) -> Option<String> {
        let graph = self.case.graph;
        graph.waits_for(turn.index).find_map(|edge| self.stopped_here(edge).or_else(|| self.stopped_outside(edge)))
    }

    fn stopped_here(&self, edge: &Edge) -> Option<String> {
        let graph = self.case.graph;
        let needed = match edge.why {
            Why::After | Why::Restart | Why::Export | Why::Barrier => return None,
            Why::Order => Status::Configured,
            Why::Needs => Status::needed(edge.phase).max(Status::Through),
        };
        let at = above(graph, edge, |step| self.status.contains_key(&step))?;
        let from = graph.step(at);
        if *self.status.get(&at)? > needed {
            return Some(self.behind.get(&at).cloned().unwrap_or_else(|| from.to_string()));
        }
        let proof = edge.phase == Phase::Verified && from.recipe != graph.step(edge.to).recipe;
        let why = proof.then(|| self.unproven(&from.recipe)).flatten()?;
        Some(format!("{from} ({why})"))
    }

    fn stopped_outside(&self, edge: &Edge) -> Option<String> {
        let why = self.outside.lacking(&self.case.host.name, edge)?;
        Some(format!("{} ({why})", self.case.ground.project.graph.step(edge.from)))
    }

    /// Returns which verification of a recipe does not hold here. One that is judged after changes may well.
    fn unproven(&self, recipe: &str) -> Option<String> {
        if self.ahead.changing.iter().any(|id| *id.recipe == *recipe) {
            return None;
        }
        let instance = self.case.instances().iter().find(|i| i.recipe.name == recipe && !i.absent)?;
        unproven(self.case, instance)
    }

    /// `behind` is what a step stands behind that is settled itself.
    fn note(&mut self, turn: &Turn<'_>, step: &StepPlan, behind: Option<String>) {
        let stopped = behind.is_some() || step.waits_for.is_some() || step.held.is_some();
        let status = match step.verdict {
            _ if stopped => Status::Stopped,
            Verdict::Ok | Verdict::NotApplicable => Status::Through,
            Verdict::Change | Verdict::Pending if self.will_be_effective(turn, step) => Status::Through,
            // What must become effective by a reload is only known to be so afterwards.
            Verdict::Change if window::waits_for_effect(turn, step) => Status::Configured,
            Verdict::Change => Status::Through,
            Verdict::Pending => Status::Configured,
            Verdict::Blocked(_) | Verdict::Unknown => Status::Stopped,
        };
        let worst = self.status.entry(turn.index).or_insert(status);
        *worst = (*worst).max(status);
        if let Some(root) = behind {
            self.behind.insert(turn.index, root);
        }
        if step.verdict == Verdict::Change && !stopped {
            self.ahead.changing.push(turn.expanded.id.clone());
            if let State::Resource(resource) = &turn.expanded.state {
                self.ahead.touched.extend(resource.inputs());
            }
            if matches!(turn.step.kind, "package" | "package_file" | "command") {
                self.opaque.insert(turn.expanded.id.clone());
            }
            let packages = PackageChanges::of_step(step);
            if packages.any() {
                self.packages.insert(turn.expanded.id.clone(), packages);
            }
            if step.envelope.as_ref().is_some_and(|envelope| envelope.foresight == Foresight::Precaution) {
                self.precautions.insert(turn.expanded.id.clone());
            }
            if is_wait(turn) {
                self.waits.insert(turn.expanded.id.clone());
            }
            self.note_removal(turn);
        }
        // Also where it waits for another step: what waits behind it is not impossible for that.
        if step.verdict == Verdict::Change {
            self.ahead.predicted.will_exist.extend(provided(turn));
        }
    }

    fn note_removal(&mut self, turn: &Turn<'_>) {
        let State::Resource(resource) = &turn.expanded.state else { return };
        let predicted = &mut self.ahead.predicted;
        // A user may take a home along, an archive what was unpacked.
        predicted.takes_more |= matches!(turn.step.kind, "package" | "package_file" | "command" | "archive" | "user");
        if turn.expanded.absent || turn.step.kind == "absent" {
            let paths = resource.claims().into_iter().filter(|(kind, _)| *kind == "path");
            predicted.will_go.extend(paths.map(|(_, path)| path));
        }
    }
}

impl Walk<'_, '_> {
    /// Whether the run itself brings a step into force: by a reboot, or since what loads it comes later.
    fn will_be_effective(&self, turn: &Turn<'_>, step: &StepPlan) -> bool {
        let reboots = self.window.may_reboot(self.case.ground.project);
        let first_load = || window::ways(turn).any(|way| way == "first-load");
        (reboots && window::is_by_reboot(turn, step)) || (step.verdict == Verdict::Change && first_load())
    }
}

/// Returns the judgement of a `one` step that may have been done on hosts that are not seen.
fn elsewhere(silent: &[HostName], cut: &[HostName]) -> Option<Judgement> {
    match (silent, cut) {
        ([], []) => None,
        ([], cut) => {
            let why = format!("it may have been done on hosts that are not in this run: {}", super::span::named(cut));
            Some(unknown(&why).hint("a step of scope `one` is done for all hosts of its entry: run without `--on`"))
        }
        ([one], _) => {
            let why = format!("`{one}` cannot be reached, and it may be the one where this ran");
            Some(
                unknown(&why)
                    .hint(format!("bring `{one}` back; if it never ran there, take it out of the entry's `on`")),
            )
        }
        (many, _) => {
            let names = super::span::named(many);
            let why = format!("hosts cannot be reached, and one of them may be where this ran: {names}");
            Some(unknown(&why).hint("bring them back; if it never ran there, take them out of the entry's `on`"))
        }
    }
}

fn is_wait(turn: &Turn<'_>) -> bool {
    turn.step.kind == "wait_for"
}

/// Returns what a turn brings into being: what its resource does, and what its step says it does.
pub fn provided(turn: &Turn<'_>) -> Vec<Provision> {
    if turn.expanded.absent {
        return Vec::new();
    }
    let mut provided = turn.step.provides.clone();
    if let State::Resource(resource) = &turn.expanded.state {
        provided.extend(resource.provides());
    }
    provided
}

/// Returns the judgement that a rule of the recipe puts on all its steps here, if one does not hold.
pub fn rule(case: &Case<'_>, instance: &Arc<Instance>) -> Option<Judgement> {
    if instance.absent {
        return None;
    }
    let judge = |rule| case.ground.expander.rule(case.host, instance, rule, &case.known());
    let mut open = None;
    for (rule, class) in instance.recipe.rules.iter().filter_map(|rule| Some((rule, rule.class?))) {
        match judge(rule) {
            Judged::Fails { .. } => {
                let reason = format!("{} ({})", rule.otherwise, places(case.ground.project, instance, rule));
                return Some(Judgement::blocked(class, reason, Value::Null));
            }
            Judged::Unknown { why, .. } => {
                let places = || places(case.ground.project, instance, rule);
                open.get_or_insert_with(|| unknown(&format!("a rule cannot be judged: {why} ({})", places())));
            }
            Judged::Holds { .. } | Judged::NotApplicable | Judged::Check { .. } => {}
        }
    }
    open
}

/// Returns where a rule stands, and where the inventory applies its recipe.
pub fn places(project: &Project, instance: &Instance, rule: &Rule) -> String {
    let place = |span| project.sources.place(span);
    format!("rule at {}, applied at {}", place(rule.require.span), place(instance.span))
}

fn step_plan(place: &str, turn: &Turn<'_>, ruling: Ruling, waits_for: Option<String>) -> StepPlan {
    let title = title(turn);
    let judgement = ruling.judgement;
    let envelope = ruling.until.map(|until| Envelope {
        until: until.into(),
        disruption: at_most(turn, &judgement, ruling.foresight),
        resource: resource_of(turn).into(),
        foresight: ruling.foresight,
    });
    StepPlan {
        id: turn.expanded.id.clone(),
        kind: turn.step.kind.into(),
        title,
        verdict: judgement.verdict,
        reason: judgement.reason,
        hint: judgement.hint,
        changes: judgement.changes,
        disruption: judgement.disruption,
        scope: turn.step.scope,
        level: turn.step.level,
        basis: ruling.basis,
        before: Vec::new(),
        after: None,
        envelope,
        by_reboot: judgement.by_reboot,
        images: judgement.images,
        stage: Stage::Before,
        held: None,
        waits_for,
        place: place.into(),
        long: turn.step.long,
    }
}

/// What a step may disturb once it can be judged. A unit that does not exist yet may come with its package, running
/// already, and then restarts on its configuration: nobody uses it yet.
fn at_most(turn: &Turn<'_>, judgement: &Judgement, foresight: Foresight) -> Disruption {
    let restarts = !turn.expanded.absent && !turn.step.restart_on.is_empty();
    match turn.step.kind == "service" && (restarts || foresight == Foresight::Precaution) {
        true => judgement.disruption.max(Disruption::D1).max(turn.step.disruption.unwrap_or(Disruption::D0)),
        false => judgement.disruption,
    }
}

/// Returns what an envelope speaks of: `file /etc/motd`.
pub fn resource_of(turn: &Turn<'_>) -> String {
    format!("{} {}", turn.step.kind, title(turn).raw())
}

/// Returns what a turn is about, as far as it is known.
pub fn title(turn: &Turn<'_>) -> Untrusted {
    let text = match &turn.expanded.state {
        State::Resource(resource) => resource.title(),
        State::Deferred(deferred) => deferred.title.clone().unwrap_or_else(|| turn.step.name.clone()),
        _ => turn.step.name.clone(),
    };
    SecretStore::mask(&text).into()
}
