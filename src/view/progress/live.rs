//! Progress on a terminal: a line per active host, a bar over all, and lasting lines above them.

use super::{Detail, Progress, words};
use crate::engine::Event;
use crate::model::{HostName, Outcome};
use crate::view::{count, escape};
use indexmap::IndexMap;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeSet;
use std::time::Duration;

/// Hosts with a line of their own at most; the bar counts the others, so that small terminals do not scroll.
const LINES: usize = 12;
const BAR: &str = "{spinner} [{bar:30}] {pos}/{len} {msg} {elapsed}";
/// What does not fit is cut: a line that wraps would stay behind when it is drawn again.
const LINE: &str = "  {prefix} {wide_msg}";
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
    /// Hosts that have not begun since they wait for canaries, and for which.
    waiting: BTreeSet<HostName>,
    canaries: String,
}

impl Live {
    pub fn new(target: ProgressDrawTarget, detail: Detail, colour: bool) -> Self {
        let screen = MultiProgress::with_draw_target(target);
        let overall = screen.add(ProgressBar::no_length());
        overall.set_style(style(BAR));
        overall.enable_steady_tick(TICK);
        let (active, lines) = (IndexMap::new(), IndexMap::new());
        let (waiting, canaries) = (BTreeSet::new(), String::new());
        Self { screen, overall, active, lines, detail, colour, failed: 0, waiting, canaries }
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
            line.set_style(style(LINE));
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
        if self.waiting.remove(host) || self.failed > 0 {
            self.count();
        }
        self.overall.inc(1);
    }

    /// A host that begins waits for no canary any more.
    fn begins(&mut self, host: &HostName) {
        if self.waiting.remove(host) {
            self.count();
        }
        self.now(host, "begins".to_owned());
    }

    fn count(&self) {
        let mut parts = vec!["hosts".to_owned()];
        parts.extend((self.failed > 0).then(|| format!("{} not done", count(self.failed, "host"))));
        parts.extend((!self.waiting.is_empty()).then(|| format!("{} for {}", self.waiting_text(), self.canaries)));
        self.overall.set_message(parts.join(", "));
    }

    fn waiting_text(&self) -> String {
        let verb = if self.waiting.len() == 1 { "waits" } else { "wait" };
        format!("{} {verb}", count(self.waiting.len(), "host"))
    }

    fn await_canaries(&mut self, hosts: &[HostName], canaries: &[HostName]) {
        self.waiting = hosts.iter().cloned().collect();
        self.canaries = words::the_canaries(canaries);
        self.count();
    }

    /// Returns the line that stays, above what moves.
    fn lasting(&self, event: &Event) -> Option<String> {
        let line = words::line(event).filter(|line| self.detail >= line.from && stays(event, self.detail))?;
        match self.colour {
            true => Some(line.text),
            false => Some(anstream::adapter::strip_str(&line.text).to_string()),
        }
    }
}

/// On a terminal the moving lines tell the ordinary; only what matters afterwards stays.
fn stays(event: &Event, detail: Detail) -> bool {
    match event {
        // With what a long step prints, everything else would scroll away: it is on the host's line.
        Event::StepOutput { .. } | Event::Fetching { .. } | Event::Sending { .. } => false,
        Event::ObserveStarted { .. } | Event::ExecStarted { .. } => false,
        Event::ApplyStarted { .. } | Event::AwaitingCanaries { .. } => false,
        Event::Connecting { .. } | Event::HostStarted { .. } | Event::StepStarted { .. } => false,
        Event::HostFinished { .. } => detail >= Detail::Verbose,
        _ => true,
    }
}

impl Progress for Live {
    fn event(&mut self, event: &Event) {
        if let Some(line) = self.lasting(event) {
            // A terminal that went away must not stop a run.
            let _ = self.screen.println(line);
        }
        match event {
            Event::ObserveStarted { hosts } => self.phase("hosts observed", *hosts),
            Event::ExecStarted { hosts } | Event::ApplyStarted { hosts, .. } => self.phase("hosts", *hosts),
            Event::Connecting { host } => self.now(host, "connecting".to_owned()),
            Event::Retrying { host, why, .. } => self.now(host, format!("trying again: {}", words::shown(why))),
            Event::Observed { host, .. } => {
                self.gone(host);
                self.overall.inc(1);
            }
            Event::Unreachable { host, .. } => self.finished(host, Outcome::Unreachable),
            Event::AwaitingCanaries { hosts, canaries } => self.await_canaries(hosts, canaries),
            Event::HostStarted { host, .. } => self.begins(host),
            Event::Reattached { host, what, .. } => self.now(host, format!("waits for {}", words::shown(what))),
            Event::Waiting { host, what, .. } => self.now(host, format!("waits for {}", words::shown(what))),
            Event::AwaitingVerification { host, name, .. } => {
                self.now(host, format!("waits for {}", escape::line(name)))
            }
            Event::StepStarted { host, step, .. } => self.now(host, escape::line(&step.to_string()).into_owned()),
            Event::StepOutput { host, step, line } => {
                self.now(host, format!("{} | {}", escape::line(&step.to_string()), words::shown(line)));
            }
            Event::HostFinished { host, outcome, .. } => self.finished(host, *outcome),
            Event::AwaitingWindow { host, .. } => self.now(host, "waits for its window".to_owned()),
            Event::Busy { host, .. } => self.now(host, "waits: its devices are held".to_owned()),
            Event::Rebooting { host, .. } => self.now(host, "reboots".to_owned()),
            Event::Stopping { .. } => self.overall.set_message("stopping"),
            Event::Fetching { what, done, total } => self.overall.set_message(words::fetching(what, *done, *total)),
            Event::Sending { host, step, done, total } => self.now(host, words::sending(step, *done, *total)),
            Event::Fetched { .. } => self.overall.set_message("hosts"),
            Event::WindowOpened { .. }
            | Event::WindowClosed { .. }
            | Event::WindowLeftOpen { .. }
            | Event::WindowShut { .. }
            | Event::Node { .. }
            | Event::Rebooted { .. }
            | Event::Evicted { .. }
            | Event::StepFinished { .. }
            | Event::StepCommands { .. }
            | Event::StepPrinted { .. }
            | Event::Verified { .. }
            | Event::Detached { .. }
            | Event::NoHistory { .. }
            | Event::RecordsMoved { .. }
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

    fn live(detail: Detail) -> Live {
        let live = Live::new(ProgressDrawTarget::hidden(), detail, false);
        live.overall.disable_steady_tick();
        live
    }

    /// Returns what stands on the lines of hosts.
    fn lines(live: &Live) -> Vec<String> {
        live.lines.values().map(|line| format!("{} {}", line.prefix(), line.message())).collect()
    }

    fn started(host: &str) -> Event {
        let (step, title) = (StepId::new("base", "nginx"), "nginx".into());
        Event::StepStarted { host: HostName::new(host), step, title, long: true }
    }

    fn output(line: &str) -> Event {
        Event::StepOutput { host: HostName::new("node-01"), step: StepId::new("base", "nginx"), line: line.into() }
    }

    fn finished(host: &str, outcome: Outcome) -> Event {
        Event::HostFinished { host: HostName::new(host), outcome, reason: "why".into() }
    }

    #[test]
    fn each_active_host_has_a_line_with_what_it_does() {
        let mut live = live(Detail::Normal);
        live.event(&Event::ApplyStarted { run: "r".into(), hosts: 2, steps: 2 });
        live.event(&started("node-01"));
        assert_eq!(lines(&live), ["node-01 base/nginx"]);
        live.event(&output("\u{1b}[2Jx"));
        assert_eq!(lines(&live), ["node-01 base/nginx | \\x1b[2Jx"]);
        live.event(&finished("node-01", Outcome::Failed));
        assert_eq!(lines(&live), [""; 0]);
        assert_eq!((live.overall.position(), live.overall.length()), (1, Some(2)));
        assert_eq!(live.overall.message(), "hosts, 1 host not done");
    }

    #[test]
    fn a_host_beyond_the_last_line_gets_one_when_another_is_done() {
        let mut live = live(Detail::Normal);
        (0..=LINES).for_each(|n| live.event(&started(&format!("node-{n:02}"))));
        assert_eq!(lines(&live).len(), LINES);
        assert!(!lines(&live).contains(&"node-12 base/nginx".to_owned()));
        live.event(&finished("node-03", Outcome::Ok));
        assert_eq!(lines(&live).last().map(String::as_str), Some("node-12 base/nginx"));
        assert!(!lines(&live).contains(&"node-03 base/nginx".to_owned()));
    }

    #[test]
    fn who_waits_for_the_canary_is_counted_until_it_begins() {
        let mut live = live(Detail::Normal);
        let hosts = ["node-02", "node-03"].map(HostName::new);
        live.event(&Event::ApplyStarted { run: "r".into(), hosts: 3, steps: 3 });
        live.event(&Event::AwaitingCanaries { hosts: hosts.to_vec(), canaries: vec![HostName::new("node-01")] });
        assert_eq!(live.overall.message(), "hosts, 2 hosts wait for the canary node-01");
        live.event(&Event::HostStarted { host: hosts[0].clone(), steps: 1 });
        assert_eq!(live.overall.message(), "hosts, 1 host waits for the canary node-01");
        live.event(&finished("node-03", Outcome::Cancelled));
        assert_eq!(live.overall.message(), "hosts, 1 host not done");
        live.event(&finished("node-02", Outcome::Ok));
        assert_eq!((live.overall.message(), lines(&live).len()), ("hosts, 1 host not done".to_owned(), 0));
    }

    #[test]
    fn only_what_matters_afterwards_stays() {
        let kept = |detail, event: &Event| live(detail).lasting(event);
        assert_eq!(kept(Detail::Verbose, &output("x")), None);
        assert_eq!(kept(Detail::Normal, &started("node-01")), None);
        assert_eq!(kept(Detail::Normal, &finished("node-01", Outcome::Failed)), None);
        assert_eq!(
            kept(Detail::Verbose, &finished("node-01", Outcome::Failed)).as_deref(),
            Some("node-01 done, failed: why")
        );
        let why = crate::plan::Unreachable::new("no route to host", None);
        let unreachable = Event::Unreachable { host: HostName::new("node-02"), why };
        assert_eq!(kept(Detail::Normal, &unreachable).as_deref(), Some("node-02 unreachable: no route to host"));
    }

    #[test]
    fn the_templates_are_valid() {
        for template in [BAR, LINE] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
