//! The process's streams, and what a test puts in their place.

use super::args::Color;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

/// A stream that writes where the process writes.
pub type Stream = Box<dyn Write + Send>;

/// Reads one line of an answer.
pub type Answer = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

/// Where results go, where everything else goes, and whether a person is there.
pub struct Console {
    /// Opens stdout: results only.
    pub out: Box<dyn Fn() -> Stream>,
    /// Opens stderr: progress, questions, errors.
    pub err: Box<dyn Fn() -> Stream>,
    pub answer: Answer,
    /// Whether somebody can be asked.
    pub can_ask: bool,
    /// Whether progress may draw, and in colour.
    pub live: bool,
    pub live_colour: bool,
}

impl Console {
    /// Returns the real console.
    pub fn new(color: Color) -> Self {
        let (stdin, stderr) = (io::stdin().is_terminal(), io::stderr().is_terminal());
        let choice = anstream::ColorChoice::from(color);
        let live_colour = match choice {
            anstream::ColorChoice::Auto => anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never,
            choice => choice != anstream::ColorChoice::Never,
        };
        Self {
            out: Box::new(move || Box::new(io::BufWriter::new(anstream::AutoStream::new(io::stdout(), choice)))),
            err: Box::new(move || Box::new(anstream::AutoStream::new(io::stderr(), choice))),
            answer: Arc::new(read_line),
            can_ask: stdin && stderr,
            live: stderr,
            live_colour,
        }
    }
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}
