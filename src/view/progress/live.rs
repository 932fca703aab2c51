//! Progress on a terminal: a line per active host, a bar over all, and lasting lines above them.

use super::{Detail, Progress, words};
use crate::engine::Event;
use crate::model::{HostName, Outcome};
use crate::view::{count, escape};
use indexmap::IndexMap;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// Hosts with a line of their own at most; the bar counts the others, so that small terminals do not scroll.
const LINES: usize = 12;
const TICK: Duration = Duration::from_millis(120);

/// Draws on a terminal. Colours are written where `colour` says so.
pub struct Live {
    screen: MultiProgress,
    overall: ProgressBar,
    /// What each active host does now, in the order in which they began.
    active: IndexMap<HostName, String>,
    lines: IndexMap<HostName, ProgressBar>,
    detail: Detail,
    colour: bool,
    failed: usize,
}

impl Live {
    pub fn new(target: ProgressDrawTarget, detail: Detail, colour: bool) -> Self {
        let screen = MultiProgress::with_draw_target(target);
        let overall = screen.add(ProgressBar::no_length());
        overall.set_style(style("{spinner} [{bar:30}] {pos}/{len} {msg} {elapsed}"));
        overall.enable_steady_tick(TICK);
        Self { screen, overall, active: IndexMap::new(), lines: IndexMap::new(), detail, colour, failed: 0 }
    }

    /// Begins to count anew.
    fn phase(&mut self, what: &'static str, total: usize) {
        self.overall.set_length(total as u64);
        self.overall.set_position(0);
        self.overall.set_message(what);
    }

    fn now(&mut self, host: &HostName, what: String) {
        self.active.insert(host.clone(), what);
        self.draw(host);
    }

    /// Gives the host a line if there is room, and says on it what the host does.
    fn draw(&mut self, host: &HostName) {
        if self.lines.len() < LINES && !self.lines.contains_key(host) {
            let line = self.screen.insert_before(&self.overall, ProgressBar::new_spinner());
            line.set_style(style("  {prefix} {msg}"));
            line.set_prefix(escape::line(host.as_str()).into_owned());
            self.lines.insert(host.clone(), line);
        }
        if let (Some(line), Some(what)) = (self.lines.get(host), self.active.get(host)) {
            line.set_message(what.clone());
        }
    }

    /// Takes the host's line away and gives it to one that has none.
    fn gone(&mut self, host: &HostName) {
        self.active.shift_remove(host);
        if let Some(line) = self.lines.shift_remove(host) {
            line.finish_and_clear();
            self.screen.remove(&line);
        }
        let next = self.active.keys().find(|host| !self.lines.contains_key(*host)).cloned();
        if let Some(next) = next {
            self.draw(&next);
        }
    }

    fn finished(&mut self, host: &HostName, outcome: Outcome) {
        let bad = !matches!(outcome, Outcome::Ok | Outcome::Changed | Outcome::Pending);
        self.failed += usize::from(bad);
        self.gone(host);
        if self.failed > 0 {
            self.overall.set_message(format!("hosts, {} not done", count(self.failed, "host")));
        }
        self.overall.inc(1);
    }

    /// A line that stays, above what moves.
    fn keep(&self, event: &Event) {
        // What a long step prints is on the host's line; with it, everything else would scroll away.
        if matches!(event, Event::StepOutput { .. }) {
            return;
        }
        let Some(line) = words::line(event).filter(|line| self.detail >= line.from && lasting(event, self.detail))
        else {
            return;
        };
        let text = match self.colour {
            true => line.text,
            false => anstream::adapter::strip_str(&line.text).to_string(),
        };
        // A terminal that went away must not stop a run.
        let _ = self.screen.println(text);
    }
}

/// On a terminal the moving lines tell the ordinary; only what matters afterwards stays.
fn lasting(event: &Event, detail: Detail) -> bool {
    match event {
        Event::ObserveStarted { .. } | Event::ApplyStarted { .. } => false,
        Event::Connecting { .. } | Event::HostStarted { .. } | Event::StepStarted { .. } => false,
        Event::HostFinished { .. } => detail >= Detail::Verbose,
        _ => true,
    }
}

impl Progress for Live {
    fn event(&mut self, event: &Event) {
        self.keep(event);
        match event {
            Event::ObserveStarted { hosts } => self.phase("hosts observed", *hosts),
            Event::ApplyStarted { hosts, .. } => self.phase("hosts", *hosts),
            Event::Connecting { host } => self.now(host, "connecting".to_owned()),
            Event::Retrying { host, why, .. } => self.now(host, format!("trying again: {}", words::shown(why))),
            Event::Observed { host, .. } => {
                self.gone(host);
                self.overall.inc(1);
            }
            Event::Unreachable { host, .. } => self.finished(host, Outcome::Unreachable),
            Event::HostStarted { host, .. } => self.now(host, "begins".to_owned()),
            Event::Reattached { host, unit } => self.now(host, format!("waits for {}", escape::line(unit))),
            Event::Waiting { host, what, .. } => self.now(host, format!("waits for {}", words::shown(what))),
            Event::StepStarted { host, step, .. } => self.now(host, escape::line(&step.to_string()).into_owned()),
            Event::StepOutput { host, step, line } => {
                self.now(host, format!("{} | {}", escape::line(&step.to_string()), words::shown(line)));
            }
            Event::HostFinished { host, outcome, .. } => self.finished(host, *outcome),
            Event::Stopping { .. } => self.overall.set_message("stopping"),
            Event::StepFinished { .. }
            | Event::Verified { .. }
            | Event::Detached { .. }
            | Event::NoHistory { .. }
            | Event::BudgetSpent { .. } => {}
        }
    }

    fn finish(&mut self) {
        for line in self.lines.values() {
            line.finish_and_clear();
        }
        self.overall.finish_and_clear();
    }
}

/// The templates are constants that a test checks; one that were wrong would show the default.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StepId;
    use indicatif::InMemoryTerm;

    fn live(detail: Detail) -> (InMemoryTerm, Live) {
        let term = InMemoryTerm::new(24, 100);
        let live = Live::new(ProgressDrawTarget::term_like(Box::new(term.clone())), detail, false);
        live.overall.disable_steady_tick();
        (term, live)
    }
}
