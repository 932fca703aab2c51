//! What a read-only check of a recipe printed, where that explains a verdict.

use super::assessment::StepAssessment;
use super::host_context::{HostContext, StepInstance};
use super::model::CheckRun;
use super::required_probes::build_effective_probe;
use crate::model::{SecretStore, StepVerdict, UntrustedText};
use crate::probe::{Probe, ProbeReading};

/// Returns the run of a check: its command, its status and the last lines of its output, without secrets. `None` if it
/// was not observed.
pub(super) fn read_check_run(case: &HostContext<'_>, probe: &Probe) -> Option<CheckRun> {
    let (Probe::Check(check), Ok(ProbeReading::Output(output))) = (probe, case.seen.observation.get(probe)) else {
        return None;
    };
    let printed = [&output.stdout, &output.stderr].map(|text| text.raw().trim_end()).join("\n");
    Some(CheckRun {
        command: SecretStore::mask_placeholders(check.script.trim()).into(),
        status: output.status,
        output: UntrustedText::new(case.ground.secrets.scrub_secrets(printed.trim_matches('\n'))).last_lines(),
    })
}

/// Returns the run of the check that reports the change of a step, or that its change is not effective yet. `None` if
/// the change is only predicted, because an earlier step may change what the check says.
pub fn find_step_check(
    case: &HostContext<'_>,
    turn: &StepInstance<'_>,
    ruling: &StepAssessment,
) -> Option<Box<CheckRun>> {
    let judged = &ruling.judgement;
    if judged.predicted || ruling.until.is_some() {
        return None;
    }
    if judged.verdict == StepVerdict::Pending {
        let run = read_check_run(case, &build_effective_probe(case, turn)?);
        return run.filter(|run| run.status != 0).map(Box::new);
    }
    if judged.verdict != StepVerdict::Change {
        return None;
    }
    let probe = turn.expanded.state.as_resource()?.failed_check(&case.seen.observation)?;
    read_check_run(case, &probe).map(Box::new)
}
