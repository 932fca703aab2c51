//! Follows a long step: its growing log and its status, over as many connections as needed.

use super::backoff::backoff_within;
use super::long_step::{step_folder, step_log_path};
use super::{HostReader, HostWriter, LockError, TransportError, TransportErrorKind, UnitName, random};
use crate::model::SecretStore;
use crate::script::{ShellFragment, ShellScript};
use backon::Retryable;
use std::time::{Duration, Instant};

/// How a long step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongStepEnd {
    /// Exit status; 124 if its own limit stopped it.
    pub status: i32,
    /// Size of its log in bytes.
    pub log_size: u64,
}

/// Receives the log as it grows: the offset after the bytes, and the bytes.
pub type LogSink<'a> = &'a mut (dyn FnMut(u64, &[u8]) + Send);

/// How long a host may be unreachable before following is given up.
const UNREACHABLE_LIMIT: Duration = Duration::from_secs(300);
/// Maximum bytes of the log per round trip.
const LOG_PIECE_CAP: u64 = 256 * 1024;
/// Half seconds that one look waits on the host for news.
const POLL_TURNS: u64 = 20;
/// Timeout of one look.
const POLL_LIMIT: Duration = Duration::from_secs(60);

/// Delay before the next look if the host cannot report whether the step is running.
const DOUBT_PAUSE: Duration = Duration::from_secs(1);

/// `$1` folder, `$2` log, `$3` offset, `$4` unit, `$5` cap, `$6` turns. Prints `alive result size count` and `count`
/// bytes of the log. `alive` is `no` only if both the step's lock and systemd say so; a failing systemctl decides
/// nothing. Liveness is read before the result: a step that ends between the two reads is then seen as ended, not as
/// gone. Without news, liveness is read every fourth turn only.
pub(super) const POLL_SCRIPT: &str = r#"i=0
while :; do
  if [ "$((i % 4))" -ne 0 ] && [ "$i" -lt "$6" ] && [ ! -e "$1/result" ]; then
    n=0
    [ -f "$2" ] && n=$(wc -c <"$2")
    if [ "$n" -le "$3" ]; then i=$((i + 1)); sleep 0.5; continue; fi
  fi
  a=no
  [ ! -e "$1/alive" ] || flock -n -s 9 9<"$1/alive" || a=yes
  if [ "$a" = no ] && [ -d /run/systemd/system ]; then
    case $(timeout 10 systemctl show --property=ActiveState --value "$4.service") in
      inactive | failed) ;;
      '') a=unknown ;;
      *) a=yes ;;
    esac
  fi
  r=-
  [ -f "$1/result" ] && read -r r <"$1/result"
  n=0
  [ -f "$2" ] && n=$(wc -c <"$2")
  if [ "$n" -gt "$3" ] || [ "$r" != - ] || [ "$a" != yes ] || [ "$i" -ge "$6" ]; then break; fi
  i=$((i + 1))
  sleep 0.5
done
k=$((n - $3))
[ "$k" -ge 0 ] || k=0
[ "$k" -le "$5" ] || k=$5
printf '%s %s %s %s\n' "$a" "$r" "$((n))" "$k"
[ "$k" -eq 0 ] || tail -c "+$(($3 + 1))" "$2" | head -c "$k"
"#;

/// Whether a long step is still running, as the host reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LongStepState {
    Running,
    Over,
    /// The host cannot report it: its systemd does not answer.
    Unknown,
}

/// One look at a long step.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LongStepPoll<'a> {
    pub life: LongStepState,
    pub result: Option<i32>,
    size: u64,
    piece: &'a [u8],
}

impl<'a> LongStepPoll<'a> {
    pub(super) fn parse(stdout: &'a [u8]) -> Option<Self> {
        let end = stdout.iter().position(|byte| *byte == b'\n')?;
        let mut words = std::str::from_utf8(&stdout[..end]).ok()?.split(' ');
        let (life, result, size, count) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let life = match life {
            "yes" => LongStepState::Running,
            "no" => LongStepState::Over,
            _ => LongStepState::Unknown,
        };
        let piece = &stdout[end + 1..];
        let result = match result {
            "-" => None,
            number => Some(number.parse().ok()?),
        };
        let whole = count.parse() == Ok(piece.len());
        whole.then_some(Self { life, result, size: size.parse().ok()?, piece })
    }
}

impl HostReader {
    /// Follows a long step from offset `from` of its log until it has ended. Reconnects a lost link, for at most five
    /// minutes; the step continues in the meantime. Any forge can follow a step that another one started.
    ///
    /// # Errors
    /// The host stays unreachable, or does not report for five minutes whether the step is running;
    /// [`LongGone`](TransportErrorKind::LongGone) if the step ended without a status, because the host rebooted or it was
    /// killed.
    pub async fn follow_long_step(
        &self,
        unit: &UnitName,
        from: u64,
        secrets: &SecretStore,
        sink: LogSink<'_>,
    ) -> Result<LongStepEnd, TransportError> {
        let mut offset = from;
        let mut doubt: Option<Instant> = None;
        loop {
            let once = || self.poll_long_step(unit, offset, secrets);
            let stdout = once.retry(backoff_within(UNREACHABLE_LIMIT)).when(can_poll_again).await?;
            let look = LongStepPoll::parse(&stdout).ok_or_else(garbled_answer_error)?;
            if !look.piece.is_empty() {
                offset += look.piece.len() as u64;
                sink(offset, look.piece);
            }
            match look {
                LongStepPoll { size, .. } if size > offset => {}
                LongStepPoll { result: Some(status), size, .. } => return Ok(LongStepEnd { status, log_size: size }),
                LongStepPoll { life: LongStepState::Over, .. } => return Err(lost_step_error(unit)),
                LongStepPoll { life: LongStepState::Running, .. } => doubt = None,
                LongStepPoll { life: LongStepState::Unknown, .. }
                    if doubt.get_or_insert_with(Instant::now).elapsed() > UNREACHABLE_LIMIT =>
                {
                    return Err(undecided_step_error(unit));
                }
                LongStepPoll { life: LongStepState::Unknown, .. } => tokio::time::sleep(DOUBT_PAUSE).await,
            }
        }
    }

    async fn poll_long_step(
        &self,
        unit: &UnitName,
        offset: u64,
        secrets: &SecretStore,
    ) -> Result<Vec<u8>, TransportError> {
        let paths = &self.session().target().paths;
        let body = ShellFragment::new()
            .code("set --")
            .word(step_folder(paths, unit))
            .word(step_log_path(paths, unit))
            .number(offset)
            .word(unit.as_str())
            .number(LOG_PIECE_CAP)
            .number(POLL_TURNS)
            .code("\n")
            .code(POLL_SCRIPT);
        self.run_read_only(&ShellScript { body, token: random::random_token()?, limit: POLL_LIMIT }, secrets).await
    }
}

impl HostWriter {
    /// Like [`HostReader::follow_long_step`]; retakes the lock if the connection that held it was lost in the meantime.
    ///
    /// # Errors
    /// Those of [`HostReader::follow_long_step`] and [`HostReader::acquire_lock`].
    pub async fn follow_long_step(
        &mut self,
        unit: &UnitName,
        from: u64,
        secrets: &SecretStore,
        sink: LogSink<'_>,
    ) -> Result<LongStepEnd, LockError> {
        let before = self.session().generation();
        let end = self.reader().follow_long_step(unit, from, secrets, sink).await?;
        if self.is_lock_lost() || self.session().generation() != before {
            self.reacquire_lock(Some(unit)).await?;
        }
        Ok(end)
    }
}

/// Reports whether to look again. A look that timed out shows that the host is slow; it says nothing about the step.
fn can_poll_again(error: &TransportError) -> bool {
    error.retryable || error.kind == TransportErrorKind::Timeout
}

fn garbled_answer_error() -> TransportError {
    TransportError::new(TransportErrorKind::Garbled, "invalid answer from the host about a long step").with_sent(true)
}

fn undecided_step_error(unit: &UnitName) -> TransportError {
    let message = format!("the host does not report whether the unit `{unit}` is running: `systemctl show` failed");
    TransportError::new(TransportErrorKind::LongGone, message).hint("check systemd on the host").with_sent(true)
}

fn lost_step_error(unit: &UnitName) -> TransportError {
    TransportError::new(TransportErrorKind::LongGone, format!("the unit `{unit}` ended without a result"))
        .hint("the host rebooted, or the unit was killed; the step's log is kept on the host")
        .with_sent(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_poll_is_not_parsed() {
        let look = LongStepPoll { life: LongStepState::Running, result: None, size: 12, piece: b"a\nb" };
        assert_eq!(LongStepPoll::parse(b"yes - 12 3\na\nb"), Some(look));
        let look = LongStepPoll { life: LongStepState::Over, result: Some(124), size: 0, piece: b"" };
        assert_eq!(LongStepPoll::parse(b"no 124 0 0\n"), Some(look));
        assert_eq!(LongStepPoll::parse(b"yes - 12 4\na\nb"), None);
        assert_eq!(LongStepPoll::parse(b"yes - 12"), None);
    }
}
