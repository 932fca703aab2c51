//! The content of a terminal after each write. The emulation understands only the sequences that forge writes.

use super::*;
use crate::engine::{Event, StepResult};
use crate::model::{HostOutcome, StepId};
use crate::view::sample;
use std::io;
use std::sync::{Arc, Mutex};

/// The lines of a terminal and its cursor. Panics on unknown sequences.
#[derive(Default)]
struct Screen {
    lines: Vec<Vec<char>>,
    line: usize,
    column: usize,
    sequence: Option<String>,
}

impl Screen {
    fn feed_char(&mut self, c: char) {
        match (self.sequence.take(), c) {
            (None, '\u{1b}') => self.sequence = Some(String::new()),
            (None, '\r') => self.column = 0,
            (None, '\n') => (self.line, self.column) = (self.line + 1, 0),
            (None, c) => {
                self.lines.resize(self.lines.len().max(self.line + 1), Vec::new());
                let line = &mut self.lines[self.line];
                line.resize(line.len().max(self.column + 1), ' ');
                line[self.column] = c;
                self.column += 1;
            }
            (Some(sequence), c) if c.is_ascii_alphabetic() => self.run_sequence(&sequence, c),
            (Some(sequence), c) => self.sequence = Some(sequence + &c.to_string()),
        }
    }

    fn run_sequence(&mut self, sequence: &str, last: char) {
        match (sequence, last) {
            ("[", 'K' | 'J') => {
                if let Some(line) = self.lines.get_mut(self.line) {
                    line.truncate(self.column);
                }
                if last == 'J' {
                    self.lines.truncate(self.line + 1);
                }
            }
            (up, 'A') => self.line -= up.trim_start_matches('[').parse::<usize>().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn shown_lines(&self) -> Vec<String> {
        self.lines.iter().map(|line| line.iter().collect()).collect()
    }
}

#[derive(Clone, Default)]
struct Terminal(Arc<Mutex<Screen>>);

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut screen = self.0.lock().unwrap();
        std::str::from_utf8(bytes).unwrap().chars().for_each(|c| screen.feed_char(c));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn new_live(detail: ProgressDetail) -> (LiveProgress, Terminal) {
    let terminal = Terminal::default();
    let size = || TerminalSize { columns: 60, lines: 24 };
    (LiveProgress::new(Box::new(terminal.clone()), Box::new(size), ProgressState::default(), detail, false), terminal)
}

fn step_finished_event(result: StepResult) -> Event {
    let (step, title, took) = (StepId::new("base", "nginx"), "nginx".into(), Duration::from_secs(2));
    Event::StepFinished {
        host: sample::host("n1"),
        step,
        title,
        result,
        hint: None,
        check: None,
        changes: vec![],
        took,
    }
}

fn host_finished_event(name: &str, outcome: HostOutcome) -> Event {
    Event::HostFinished { host: sample::host(name), outcome, reason: "why".into() }
}

#[test]
fn lasting_lines_scroll_above_the_redrawn_frame() {
    let (mut live, terminal) = new_live(ProgressDetail::Normal);
    let (began, shown) = (Instant::now(), || terminal.0.lock().unwrap().shown_lines());
    let second = Duration::from_secs(1);
    live.tick(began);
    assert_eq!(shown(), [""; 0], "nothing is running yet");
    live.show_event(&Event::ExecStarted { hosts: 2 }, began);
    ["n1", "n2"].iter().for_each(|name| live.show_event(&Event::Connecting { host: sample::host(name) }, began));
    assert_eq!(shown(), [""; 0], "an event alone draws nothing");
    live.tick(began);
    assert_eq!(shown(), ["     0s  n1  observing", "     0s  n2  observing", "0/2 hosts, 0s"]);
    live.show_event(&step_finished_event(StepResult::Changed), began + second);
    live.show_event(&host_finished_event("n1", HostOutcome::Failed), began + second);
    live.tick(began + second);
    let lasting = "n1 changed base/nginx (nginx, 2.0 s)";
    assert_eq!(shown(), [lasting, "     1s  n2  observing", "1/2 hosts, 1 failed, 1s"]);
    live.show_event(&host_finished_event("n2", HostOutcome::Ok), began + second);
    live.show_event(&step_finished_event(StepResult::Changed), began + second);
    live.finish();
    assert_eq!(shown(), [lasting, lasting, ""], "the picture is gone, lasting lines stay");
}

#[test]
fn unchanged_frame_is_not_redrawn() {
    #[derive(Clone, Default)]
    struct Count(Arc<Mutex<usize>>);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            *self.0.lock().unwrap() += 1;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writes = Count::default();
    let size = || TerminalSize { columns: 80, lines: 24 };
    let mut live = LiveProgress::new(
        Box::new(writes.clone()),
        Box::new(size),
        ProgressState::default(),
        ProgressDetail::Normal,
        false,
    );
    let began = Instant::now();
    live.show_event(&Event::ExecStarted { hosts: 10_000 }, began);
    for n in 0..10_000 {
        live.show_event(&Event::Connecting { host: sample::host(&format!("n{n}")) }, began);
    }
    (0..8).for_each(|tick| live.tick(began + FRAME_INTERVAL * tick));
    assert_eq!(*writes.0.lock().unwrap(), 1);
    live.tick(began + FRAME_INTERVAL * 8);
    assert_eq!(*writes.0.lock().unwrap(), 2, "a second has passed");
}

#[test]
fn frame_is_fully_redrawn_after_the_terminal_narrows() {
    let before = ["x".repeat(50), "y".to_owned()];
    assert!(redraw_sequence(&before, &[], &[], 60).starts_with("\r\u{1b}[1A"));
    assert!(redraw_sequence(&before, &[], &[], 20).starts_with("\r\u{1b}[3A"), "the first takes three lines");
    assert_eq!(redraw_sequence(&[], &[], &[], 20), format!("\r{CLEAR_BELOW}"));
}

#[test]
fn only_relevant_events_leave_a_lasting_line() {
    let kept = |detail, event: &Event| new_live(detail).0.lasting_line(event);
    let (host, step) = (sample::host("n1"), StepId::new("base", "nginx"));
    let output = Event::StepOutput { host: host.clone(), step: step.clone(), line: "x".into() };
    assert_eq!(kept(ProgressDetail::Verbose, &output), None);
    assert_eq!(kept(ProgressDetail::Normal, &Event::StepStarted { host, step, title: "".into(), long: true }), None);
    assert_eq!(kept(ProgressDetail::Normal, &host_finished_event("n1", HostOutcome::Failed)), None);
    assert_eq!(
        kept(ProgressDetail::Verbose, &host_finished_event("n1", HostOutcome::Failed)).as_deref(),
        Some("n1 done, failed: why")
    );
    let why = crate::plan::UnreachableReason::new("no route to host", None);
    let unreachable = Event::Unreachable { host: sample::host("n2"), why };
    assert_eq!(kept(ProgressDetail::Normal, &unreachable).as_deref(), Some("n2 unreachable: no route to host"));
}
