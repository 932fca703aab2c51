//! Work of a run on a host while it is observed: its state may be about to change.

use crate::model::UntrustedText;
use crate::probe::{RecordsState, WriterTrace};

/// Begin of the names of the units of `forge test`.
const TEST_UNITS: &str = "forge-test-";

/// Work of a run on a host at the time of the observation.
#[derive(Clone, Debug, PartialEq)]
pub enum OngoingWork {
    /// A run that holds the writer lock, or that detached from a script which is still running.
    Run(WriterTrace),
    /// The unit of a long step, or of a program of `forge test`.
    Unit {
        /// The name of the unit.
        name: String,
        /// When it started, as systemd prints it.
        since: UntrustedText,
    },
}

impl OngoingWork {
    /// What to do about it.
    pub const HINT: &str = "this result does not include its changes: wait for its end";

    /// Returns what the host's state says about such work, if there is any.
    pub(super) fn from_state(state: &RecordsState) -> Option<Self> {
        let unit = |(name, since): &(String, UntrustedText)| Self::Unit { name: name.clone(), since: since.clone() };
        state.writer.clone().map(Self::Run).or_else(|| state.running.first().map(unit))
    }

    /// Returns a noun phrase: the run, or the unit of its step.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Run(writer) => format!("run {}", writer.run.raw()),
            Self::Unit { name, .. } => format!("unit `{name}`"),
        }
    }

    /// Returns the reason of a failure that is left undecided, because the work may change its cause.
    pub fn defer_reason(reason: &UntrustedText) -> UntrustedText {
        format!("not judged while a run works on the host: {}", reason.raw()).into()
    }

    /// Returns a lowercase fragment that names the run.
    pub fn describe(&self) -> String {
        match self {
            Self::Run(writer) => format!("another run works on this host: {}", writer.describe()),
            Self::Unit { name, since } => {
                let since = if since.is_empty() { String::new() } else { format!(", since {}", since.raw()) };
                let what = if name.starts_with(TEST_UNITS) { "a test" } else { "a step" };
                format!("{what} of another run is still running on this host: unit `{name}`{since}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_of_a_long_step_is_named_if_no_run_holds_the_host() {
        let running = vec![("forge-r1-0001.service".to_owned(), UntrustedText::from("Sat 09:30"))];
        let state = RecordsState { running, ..RecordsState::default() };
        let described = OngoingWork::from_state(&state).map(|work| work.describe());
        let expected =
            "a step of another run is still running on this host: unit `forge-r1-0001.service`, since Sat 09:30";
        assert_eq!(described.as_deref(), Some(expected));
        assert_eq!(OngoingWork::from_state(&RecordsState::default()), None);
        let test = OngoingWork::Unit { name: "forge-test-r1-0-0.service".to_owned(), since: "".into() };
        let expected = "a test of another run is still running on this host: unit `forge-test-r1-0-0.service`";
        assert_eq!(test.describe(), expected);
    }
}
