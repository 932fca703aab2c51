//! The process's streams, replaceable in tests.

use super::shared_args::ColorMode;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

/// A stream of the process.
pub type ConsoleStream = Box<dyn Write + Send>;

/// Reads one line from the user.
pub type AnswerReader = Arc<dyn Fn() -> io::Result<String> + Send + Sync>;

/// The streams for results and messages, and whether the user can be asked.
pub struct Console {
    /// Opens stdout: results only.
    pub out: Box<dyn Fn() -> ConsoleStream>,
    /// Opens stderr: progress, questions, errors.
    pub err: Box<dyn Fn() -> ConsoleStream>,
    pub answer: AnswerReader,
    /// Whether the user can be asked for confirmation: stdin and stderr are terminals.
    pub can_ask: bool,
    /// Whether live progress may be drawn, and whether in color.
    pub live: bool,
    pub live_colour: bool,
}

impl Console {
    /// Returns the real console.
    pub fn new(color: ColorMode) -> Self {
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
