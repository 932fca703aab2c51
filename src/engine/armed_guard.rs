//! Guards of changes that can cut forge off: armed by the script of the change, confirmed over a new session.

use super::due_step::DueStep;
use super::event::{Event, StepFailure};
use super::host_session::{HostSession, SHORT_SCRIPT_LIMIT, describe_transport_error, host_side_error};
use super::run_context::ApplyContext;
use super::session_connector::OpenSession;
use crate::model::{HostName, StepId, UntrustedText, format_guard_time};
use crate::state::{GuardAnswer, GuardOutcome, HostGuard, UndoScripts, parse_guard_answer};
use crate::transport::TransportError;
use std::time::{Duration, Instant};

/// Interval between attempts to confirm a change.
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);
/// How long forge waits for the answer of a script before it also tries new sessions.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long forge waits for a host after its guard has restored the state before.
const RETURN_LIMIT: Duration = Duration::from_secs(120);

/// A guard whose script was sent to the host.
pub(super) struct ArmedGuard<'r> {
    run: &'r ApplyContext<'r>,
    host: &'r HostName,
    guard: HostGuard,
    sent: Instant,
    /// Why the last attempt within the guard time failed.
    last: UntrustedText,
    settled: Option<SettledGuard>,
}

/// The answer of a host, and the new session over which it came.
pub(super) struct SettledGuard {
    pub session: Box<dyn HostSession>,
    /// The restoration, if the guard has restored the state before.
    pub restored: Option<GuardRestoration>,
    answer: GuardAnswer,
}

/// A guard that restored the state before.
pub(super) struct GuardRestoration {
    steps: Vec<StepId>,
    failure: StepFailure,
    outcome: GuardOutcome,
}

impl<'r> ArmedGuard<'r> {
    /// Returns the guard of the steps of one script, if any of them is guarded. `number` distinguishes the scripts of a
    /// run.
    pub fn new(run: &'r ApplyContext<'r>, host: &'r HostName, due: &[DueStep], number: u64) -> Option<Self> {
        let guarded = || due.iter().filter_map(|due| Some((&due.id, due.guard.as_ref()?)));
        let seconds = guarded().map(|(_, guard)| guard.seconds).max()?;
        let steps = guarded().map(|(id, guard)| (id.clone(), guard.step.clone())).collect();
        let guard = HostGuard::new(&run.project.cluster, &run.options.run, number, seconds, steps);
        Some(Self { run, host, guard, sent: Instant::now(), last: UntrustedText::default(), settled: None })
    }

    /// Lets the script keep the state before, and arm the guard, before its first change.
    pub fn arm_in(&self, undo: UndoScripts) -> UndoScripts {
        UndoScripts { before: undo.before.append_fragment(self.guard.build_arm_script()), ..undo }
    }

    /// Notes that the script is sent now.
    pub fn note_sent(&mut self) {
        self.sent = Instant::now();
    }

    /// Returns once the guard is settled, or the host did not come back. Meanwhile the script of the change may still
    /// run.
    pub async fn await_settled(&mut self) {
        tokio::time::sleep(ANSWER_PATIENCE.min(self.guard_time() / 4)).await;
        self.try_to_settle().await;
    }

    /// Tries to confirm the change until the guard is settled, or the host did not come back after the guard time.
    async fn try_to_settle(&mut self) {
        let limit = self.guard_time() + RETURN_LIMIT;
        while self.settled.is_none() {
            match self.try_in_time().await {
                Ok(settled) if settled.answer == GuardAnswer::Busy => settled.session.close().await,
                Ok(settled) => self.settled = Some(settled),
                Err(why) => self.note_attempt(why),
            }
            if self.settled.is_some() || self.sent.elapsed() >= limit {
                return;
            }
            tokio::time::sleep(ATTEMPT_PAUSE).await;
        }
    }

    /// Confirms the change over a new session, unless that happened already. Returns the answer of the host.
    ///
    /// # Errors
    /// The host did not come back.
    pub async fn settle(mut self) -> Result<SettledGuard, TransportError> {
        self.try_to_settle().await;
        match self.settled.take() {
            Some(SettledGuard { session, answer, .. }) => {
                let restored = match answer {
                    GuardAnswer::Restored(ref outcome) => Some(self.describe_restoration(outcome.clone())),
                    _ => None,
                };
                Ok(SettledGuard { session, answer, restored })
            }
            None => Err(self.describe_loss()),
        }
    }

    /// An attempt that begins in time may not outlast the guard time: its answer would come too late.
    async fn try_in_time(&self) -> Result<SettledGuard, UntrustedText> {
        let left = self.time_left();
        if left.is_zero() {
            return self.try_confirm().await;
        }
        match tokio::time::timeout(left, self.try_confirm()).await {
            Ok(answer) => answer,
            Err(_) => Err("the login did not finish in time".into()),
        }
    }

    /// Asks the host over a session of its own.
    async fn try_confirm(&self) -> Result<SettledGuard, UntrustedText> {
        let shared = self.run.board.shared_values();
        let request = self.run.session_request(self.host, &shared.secrets).without_kept_connection();
        let opened = <dyn HostSession>::open(request).await;
        let session = opened.map_err(|error| describe_transport_error(&error))?;
        let script = self.guard.build_confirm_script();
        let done = session.run_script(script, SHORT_SCRIPT_LIMIT, &shared.secrets).await;
        let answer = match &done {
            Ok(done) => parse_guard_answer(&String::from_utf8_lossy(&done.finished.stdout))
                .ok_or_else(|| "the host gave no valid answer".into()),
            Err(error) => Err(describe_transport_error(error)),
        };
        match answer {
            Ok(answer) => {
                if answer != GuardAnswer::Busy {
                    // If that fails, a later apply removes the copies.
                    let script = self.guard.build_forget_script();
                    let _ = session.run_script(script, SHORT_SCRIPT_LIMIT, &shared.secrets).await;
                }
                Ok(SettledGuard { session, answer, restored: None })
            }
            Err(why) => {
                session.close().await;
                Err(why)
            }
        }
    }

    fn note_attempt(&mut self, why: UntrustedText) {
        let left = self.time_left();
        if left.is_zero() && !self.last.is_empty() {
            return;
        }
        if self.last != why {
            let line = format!(
                "guard: no new session yet ({}); the host restores the state before in {} s",
                why.raw(),
                left.as_secs()
            );
            for step in self.guard.steps() {
                let (host, step) = (self.host.clone(), step.clone());
                self.run.emit_event(Event::StepOutput { host, step, line: line.as_str().into() });
            }
        }
        self.last = why;
    }

    fn guard_time(&self) -> Duration {
        Duration::from_secs(self.guard.seconds())
    }

    fn time_left(&self) -> Duration {
        self.guard_time().saturating_sub(self.sent.elapsed())
    }

    fn describe_loss(&self) -> TransportError {
        let time = format_guard_time(self.guard.seconds());
        let last = self.last.raw();
        host_side_error(format!(
            "no new session within the guard's {time} and {} after it: {last}",
            format_guard_time(RETURN_LIMIT.as_secs())
        ))
    }

    fn describe_restoration(&self, outcome: GuardOutcome) -> GuardRestoration {
        let time = format_guard_time(self.guard.seconds());
        let last = match self.last.raw().trim() {
            "" => "no login finished in time",
            last => last,
        };
        let why = format!("guard restored the state before: no new session within {time} ({last})");
        let failure = StepFailure {
            why: why.into(),
            tail: outcome.problems.clone(),
            hint: Some(RESTORED_HINT.into()),
            ..empty_failure()
        };
        GuardRestoration { steps: self.guard.steps().cloned().collect(), failure, outcome }
    }
}

impl GuardRestoration {
    /// Returns the failure of a step whose change was taken back.
    pub fn find_failure(&self, step: &StepId) -> Option<&StepFailure> {
        self.steps.contains(step).then_some(&self.failure)
    }

    /// Returns the failure of a step of an earlier script whose change was taken back too.
    pub fn find_earlier_failure(&self, step: &StepId) -> Option<StepFailure> {
        let cause = self.steps.first().filter(|_| self.outcome.also.contains(&step.to_string()))?;
        Some(StepFailure { why: format!("the guard of `{cause}` restored the state before").into(), ..empty_failure() })
    }
}

const RESTORED_HINT: &str = "correct the declaration before the next apply: it makes the same change again";

fn empty_failure() -> StepFailure {
    StepFailure {
        why: UntrustedText::default(),
        tail: UntrustedText::default(),
        hint: None,
        log: None,
        artifact: false,
    }
}
