//! The confirmation prompt before hosts are changed.

use super::console::Console;
use super::error::CliError;
use super::interrupt::InterruptSignals;
use std::io::Write;

/// Asks for confirmation: `question [y/N]`. End of input counts as no.
///
/// # Errors
/// Interrupted at the prompt; stdin cannot be read.
pub async fn ask_yes_no(stop: &mut InterruptSignals, console: &Console, question: &str) -> Result<bool, CliError> {
    let mut err = (console.err)();
    // If the prompt cannot be written, reading the answer reports the failure.
    let _ = write!(err, "{question} [y/N] ").and_then(|()| err.flush());
    let answer = console.answer.clone();
    let read = tokio::task::spawn_blocking(move || answer());
    let line = tokio::select! {
        line = read => line,
        () = stop.next_interrupt() => {
            end_line(&mut err);
            return Err(CliError::interrupted("interrupted at the prompt; nothing was changed"));
        }
    };
    match line {
        Ok(Ok(line)) if !line.ends_with('\n') => {
            end_line(&mut err);
            Ok(is_yes(&line))
        }
        Ok(Ok(line)) => Ok(is_yes(&line)),
        Ok(Err(error)) => Err(CliError::unexpected(anyhow::Error::new(error).context("cannot read the answer"))),
        Err(error) => Err(CliError::unexpected(anyhow::Error::new(error).context("cannot read the answer"))),
    }
}

/// Ends the line of the prompt when the answer did not, so that later output starts on its own line.
fn end_line(err: &mut dyn Write) {
    let _ = writeln!(err);
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_or_yes_confirms() {
        for yes in ["y\n", "Y\n", "yes\n", " YES \r\n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "ye\n", "yess\n", "ja\n", "y n\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
