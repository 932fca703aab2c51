//! What later runs did to the steps and paths of a run: whether its changes are still the last ones. Pure.

use crate::model::StepId;
use crate::state::{FormerState, UndoGroup, UndoneStep};
use std::collections::{BTreeMap, BTreeSet};

/// How many undos of undos are followed. The marks of a damaged journal may lead in a circle.
const UNDO_DEPTH: usize = 8;

/// The changes of the runs that came after a run, on one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LaterChanges {
    steps: Vec<LaterStep>,
    undone: Vec<UndoneStep>,
    paths: BTreeMap<String, LaterState>,
}

#[derive(Clone, Debug, PartialEq)]
struct LaterStep {
    cluster: String,
    run: String,
    step: StepId,
}

/// What the first later run that changed a path found there.
#[derive(Clone, Debug, PartialEq)]
struct LaterState {
    state: FormerState,
    /// Whether the path has that content, owner and mode now.
    is_back: bool,
    /// Of the copy that the later run made; `None` if it made none.
    copied: Option<PathStat>,
}

/// What `stat` says about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathStat {
    /// The time of the last change of the inode.
    changed: String,
    /// Mode, owner, group and size.
    shape: [String; 4],
    /// The time of the last change of the content; `None` in a journal of an earlier release.
    modified: Option<String>,
}

impl PathStat {
    /// Parses `ctime mode owner group size mtime PATH`. Earlier releases wrote no mtime.
    pub fn parse(line: &str) -> Option<(String, PathStat)> {
        let at = line.find(" /")?;
        let mut fields = line[..at].split(' ').map(str::to_owned);
        let mut next = || fields.next();
        let stat = PathStat { changed: next()?, shape: [next()?, next()?, next()?, next()?], modified: next() };
        Some((line[at + 1..].to_owned(), stat))
    }

    /// Whether nothing changed the path between the two.
    pub fn is_unchanged(&self, later: &PathStat) -> bool {
        self.changed == later.changed && self.shape == later.shape
    }

    /// Whether size, owner and mode are equal, so that the path may only have been touched between the two.
    pub fn has_same_shape(&self, later: &PathStat) -> bool {
        self.shape == later.shape
    }

    /// Whether a copy with all attributes was made of the path as it was then. A copy has its own ctime.
    fn is_copied_by(&self, copy: &PathStat) -> bool {
        self.shape == copy.shape && self.modified.is_some() && self.modified == copy.modified
    }
}

impl LaterChanges {
    /// Adds what a later run changed. Runs are added in their order.
    pub fn add_group(&mut self, group: UndoGroup) {
        let UndoGroup { cluster, run, steps, .. } = group;
        self.steps.extend(steps.into_iter().map(|step| LaterStep {
            cluster: cluster.clone(),
            run: run.clone(),
            step: step.step,
        }));
    }

    /// Adds steps whose change in a later run was undone.
    pub fn add_undone(&mut self, undone: impl IntoIterator<Item = UndoneStep>) {
        self.undone.extend(undone);
    }

    /// Adds a line of a host: `STATE BACK ctime mode owner group size mtime PATH`, or `none BACK PATH`. Only the first
    /// one of a path counts.
    pub fn add_path(&mut self, line: &str) -> Option<()> {
        let (state, rest) = line.split_once(' ')?;
        let (back, rest) = rest.split_once(' ')?;
        let (path, copied) = match rest.starts_with('/') {
            true => (rest.to_owned(), None),
            false => PathStat::parse(rest).map(|(path, stat)| (path, Some(stat)))?,
        };
        let found = LaterState { state: FormerState::parse(state)?, is_back: back == "back", copied };
        self.paths.entry(path).or_insert(found);
        Some(())
    }

    /// Returns the first later run of `cluster` whose change of the step is in force.
    pub fn find_run(&self, cluster: &str, step: &StepId) -> Option<&str> {
        let own = self.steps.iter().filter(|later| later.cluster == cluster && later.step == *step);
        own.map(|later| later.run.as_str()).find(|run| !self.is_undone(run, step))
    }

    fn is_undone(&self, run: &str, step: &StepId) -> bool {
        self.has_mark(run, step, &self.list_valid_undos(run, 0))
    }

    fn has_mark(&self, run: &str, step: &StepId, valid: &BTreeSet<&str>) -> bool {
        self.undone.iter().any(|mark| mark.run == run && mark.step == *step && valid.contains(&*mark.by))
    }

    /// Returns the runs that undid a part of `run` and are in force: an undo that was itself undone, even in part, counts
    /// for nothing, unless all of that was undone again.
    fn list_valid_undos(&self, run: &str, depth: usize) -> BTreeSet<&str> {
        let undos = self.list_undos(run).into_iter().filter(|_| depth < UNDO_DEPTH);
        undos.filter(|by| self.list_undos(by).iter().all(|undo| self.is_wholly_undone(undo, depth + 1))).collect()
    }

    fn list_undos(&self, run: &str) -> BTreeSet<&str> {
        self.undone.iter().filter(|mark| mark.run == run).map(|mark| &*mark.by).collect()
    }

    fn is_wholly_undone(&self, run: &str, depth: usize) -> bool {
        let valid = self.list_valid_undos(run, depth);
        let mut own = self.steps.iter().filter(|later| later.run == run).peekable();
        own.peek().is_some() && own.all(|later| self.has_mark(run, &later.step, &valid))
    }

    /// Whether the path is what the run left, although later runs changed it: the first of them found it like that, and
    /// it is again what that one found. `after` is the path after the run; `None` if nothing was there.
    pub fn is_as_left(&self, path: &str, after: Option<&PathStat>) -> bool {
        let Some(found) = self.paths.get(path).filter(|found| found.is_back) else { return false };
        match (found.state, after, &found.copied) {
            (FormerState::Nothing, None, _) => true,
            (FormerState::File | FormerState::Link, Some(after), Some(copied)) => after.is_copied_by(copied),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UndoEffect;
    use crate::state::UndoStep;

    fn group(cluster: &str, run: &str, step: &str) -> UndoGroup {
        let step = UndoStep {
            step: StepId::new("web", step),
            kind: "file".into(),
            title: step.into(),
            effect: UndoEffect::default(),
            secret: false,
            restart_on: Vec::new(),
            guard_s: None,
            records: Vec::new(),
        };
        UndoGroup::new(cluster, run, vec![step])
    }

    fn mark(run: &str, step: &str, by: &str) -> UndoneStep {
        UndoneStep { run: run.into(), step: StepId::new("web", step), by: by.into() }
    }

    #[test]
    fn change_that_was_undone_is_not_in_force() {
        let mut later = LaterChanges::default();
        let page = StepId::new("web", "page");
        later.add_group(group("other", "r2", "page"));
        assert_eq!(later.find_run("lab", &page), None, "the inventory of another cluster has a step of that name");
        later.add_group(group("lab", "r3", "page"));
        assert_eq!(later.find_run("lab", &page), Some("r3"));
        later.add_undone([mark("r3", "other", "u1")]);
        assert_eq!(later.find_run("lab", &page), Some("r3"));
        later.add_undone([mark("r3", "page", "u1")]);
        assert_eq!(later.find_run("lab", &page), None);
        later.add_undone([mark("u1", "web page", "u2")]);
        assert_eq!(later.find_run("lab", &page), Some("r3"), "the undo was undone");
        later.add_group(group("lab", "u2", "web page"));
        assert_eq!(later.find_run("lab", &page), Some("r3"));
        later.add_undone([mark("u2", "web page", "u3")]);
        assert_eq!(later.find_run("lab", &page), None, "the undo of the undo was undone");
        later.add_group(group("lab", "u2", "web other"));
        assert_eq!(later.find_run("lab", &page), Some("r3"), "only a part of it was undone");
        later.add_undone([mark("r3", "page", "u5")]);
        assert_eq!(later.find_run("lab", &page), None);
        later.add_group(group("lab", "r9", "page"));
        assert_eq!(later.find_run("lab", &page), Some("r9"));
    }

    #[test]
    fn marks_in_a_circle_end() {
        let mut later = LaterChanges::default();
        later.add_group(group("lab", "r3", "page"));
        later.add_group(group("lab", "u1", "page"));
        later.add_undone([mark("r3", "page", "u1"), mark("u1", "page", "r3"), mark("u1", "page", "u1")]);
        later.find_run("lab", &StepId::new("web", "page"));
    }

    #[test]
    fn path_that_is_back_is_as_the_run_left_it() {
        let stat = |text: &str| PathStat::parse(&format!("{text} /etc/a b")).unwrap();
        let (path, after) = stat("100.5 81a4 0 0 12 90.25");
        assert_eq!(path, "/etc/a b");
        let judge = |line: &str, after: Option<&PathStat>| {
            let mut later = LaterChanges::default();
            later.add_path(line).unwrap();
            later.is_as_left(&path, after)
        };
        assert!(judge("file back 200.1 81a4 0 0 12 90.25 /etc/a b", Some(&after)));
        assert!(!judge("file moved 200.1 81a4 0 0 12 90.25 /etc/a b", Some(&after)), "it is not back");
        for other in ["81a4 0 0 12 91.00", "81a0 0 0 12 90.25", "81a4 0 0 13 90.25"] {
            assert!(!judge(&format!("file back 200.1 {other} /etc/a b"), Some(&after)), "changed before that run");
        }
        assert!(!judge("file back 200.1 81a4 0 0 12 90.25 /etc/other", Some(&after)));
        assert!(judge("none back /etc/a b", None) && !judge("none back /etc/a b", Some(&after)));
        assert!(!judge("other back /etc/a b", Some(&after)));
        let (_, earlier) = stat("100.5 81a4 0 0 12");
        assert!(earlier.is_unchanged(&after) && !judge("file back 1 81a4 0 0 12 /etc/a b", Some(&earlier)));
        assert!(!stat("100.6 81a4 0 0 12 90.25").1.is_unchanged(&after));
    }
}
