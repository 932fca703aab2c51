//! One action of the script that carries out a group of turns.

use crate::resource::{ActionBatch, ActionScript};

/// One action of a group's script.
#[derive(Clone, Copy)]
pub struct GroupedAction<'a> {
    pub script: &'a ActionScript,
    /// What it can share with the actions next to it.
    pub batch: Option<&'a ActionBatch>,
    /// Whether its stdout is exported as a value: its stderr stays separate then, otherwise it is part of its output.
    pub exports_stdout: bool,
    /// Paths that it may have written.
    pub paths: &'a [String],
    /// The step to note in the journal of a view; `None` outside of rehearsals.
    pub noted_step: Option<&'a str>,
}

impl<'a> GroupedAction<'a> {
    /// Returns an action that shares nothing and exports nothing.
    pub fn alone(script: &'a ActionScript) -> Self {
        Self { script, batch: None, exports_stdout: false, paths: &[], noted_step: None }
    }

    /// Returns the directory that it leaves to be synced with those of others.
    pub fn directory(&self) -> Option<&'a str> {
        self.batch?.directory.as_deref()
    }

    /// Returns the key of what it shares.
    pub fn key(&self) -> Option<&'static str> {
        self.batch.map(|batch| batch.key)
    }
}
