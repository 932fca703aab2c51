//! Compares the installed version with the declared one.

use super::declaration::InstallerResource;
use crate::model::{BlockClass, DisruptionClass, Value};
use crate::probe::{Observation, PathState, PathType, UnansweredReason};
use crate::resource::files::artifact::content;
use crate::resource::shared::support::{output, will_be_provided};
use crate::resource::{Assessment, AssessmentContext, AttributeChange, ProvidedItem, ResourceDiff};
use serde::Serialize;
use serde_json::json;

/// Maximum number of output characters in a message.
const MAX_SHOWN_CHARS: usize = 80;

impl InstallerResource {
    pub(super) fn assess_version(&self, seen: &Observation, cx: &AssessmentContext<'_>) -> Assessment<InstallerDiff> {
        match self.find_installed_version(seen) {
            Ok(version) => self.compare_version(version.as_deref(), seen, cx),
            Err(unknown) => self.assess_unanswered(&unknown, cx),
        }
        .unwrap_or_else(|unknown| Assessment::unknown(&unknown))
    }

    /// Returns the installed version, `None` if nothing is installed.
    fn find_installed_version(&self, seen: &Observation) -> Result<Option<String>, UnansweredReason> {
        let output = output(seen, &self.version_probe())?;
        if self.not_installed.contains(&i64::from(output.status)) {
            return Ok(None);
        }
        if output.status != 0 {
            let why = format!("the version could not be read: `probe` exited with {}", output.status);
            return Err(UnansweredReason::new(why).with_message(output.stderr.raw().trim()));
        }
        let text = output.stdout.raw().trim();
        let version = match &self.pattern {
            _ if text.is_empty() => return Ok(None),
            None => text.lines().next().map(str::trim),
            Some(pattern) => pattern.captures(text).and_then(|found| Some(found.get(1)?.as_str().trim())),
        };
        match version {
            Some(version) => Ok(Some(version.to_owned())),
            None => Err(UnansweredReason::new("`probe` printed no version")
                .with_message(text.chars().take(MAX_SHOWN_CHARS).collect::<String>())),
        }
    }

    fn compare_version(
        &self,
        found: Option<&str>,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<InstallerDiff>, UnansweredReason> {
        let basis = json!({ "version": found });
        match found {
            None if self.absent => Ok(Assessment::ok("nothing is installed", basis)),
            Some(found) if !self.absent && found == self.version => {
                Ok(Assessment::ok(format!("`{found}` is installed"), basis))
            }
            _ => self.assess_version_change(found, basis, seen, cx),
        }
    }

    fn assess_version_change(
        &self,
        found: Option<&str>,
        basis: Value,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<InstallerDiff>, UnansweredReason> {
        let reason = match found {
            Some(found) if self.absent => format!("`{found}` is installed"),
            Some(found) => format!("`{found}` is installed, expected `{}`", self.version),
            None => "nothing is installed".to_owned(),
        };
        let disruption = if found.is_some() { DisruptionClass::D1 } else { DisruptionClass::D0 };
        let before = found.map_or(InstalledVersion::Absent, |found| InstalledVersion::Found(found.to_owned()));
        let judgement = Assessment::differs(reason, self.version_diff(before), disruption, basis);
        Ok(match self.check_program(seen, cx)? {
            ProgramReadiness::Yes => judgement,
            ProgramReadiness::Comes => judgement.mark_predicted(),
            ProgramReadiness::Blocks(blocked) => *blocked,
        })
    }

    /// Reports whether the program can run.
    fn check_program(
        &self,
        seen: &Observation,
        cx: &AssessmentContext<'_>,
    ) -> Result<ProgramReadiness, UnansweredReason> {
        let path = &self.program.path;
        if will_be_provided(cx.predicted, &ProvidedItem::Path(path.clone())) {
            return Ok(ProgramReadiness::Comes);
        }
        let blocked = |why: String, hint: &str| {
            let basis = json!({ "program": why });
            Ok(ProgramReadiness::Blocks(Box::new(Assessment::blocked(BlockClass::Host, why, basis).hint(hint))))
        };
        match content::content_state(seen, path, self.sha256.is_some())? {
            PathState::Absent if self.may_come(cx) => Ok(ProgramReadiness::Comes),
            PathState::Absent if self.absent => {
                blocked(format!("its uninstaller `{path}` does not exist"), RESTORE_UNINSTALLER_HINT)
            }
            PathState::Absent => blocked(format!("program `{path}` does not exist"), PROVIDE_HINT),
            PathState::Present(info) if info.kind == PathType::Directory => {
                blocked(format!("`{path}` is a directory"), PROVIDE_HINT)
            }
            PathState::Present(info) => match (&self.sha256, &info.sha256) {
                (Some(declared), Some(found)) if declared.as_str() != found => blocked(
                    format!("`{path}` has the sha256 {found}, declared is {declared}"),
                    "check the program at its source, or correct `sha256`",
                ),
                _ => Ok(ProgramReadiness::Yes),
            },
        }
    }

    /// Reports whether an earlier step may bring the program. The uninstaller of software comes with it, and not with
    /// the removal of something else.
    fn may_come(&self, cx: &AssessmentContext<'_>) -> bool {
        cx.predicted.is_some_and(|earlier| if self.absent { earlier.may_bring_files } else { earlier.after.is_some() })
    }

    /// Plans a change from the declaration alone if the probe cannot run before an earlier step.
    fn assess_unanswered(
        &self,
        unknown: &UnansweredReason,
        cx: &AssessmentContext<'_>,
    ) -> Result<Assessment<InstallerDiff>, UnansweredReason> {
        let Some(step) = cx.predicted.and_then(|p| p.after.as_deref()) else { return Err(unknown.clone()) };
        let reason = format!("cannot be evaluated before `{step}` runs: {}", unknown.why);
        let diff = self.version_diff(InstalledVersion::NotKnown);
        Ok(Assessment::differs(reason, diff, DisruptionClass::D1, json!({ "version": "unknown" })).mark_predicted())
    }

    fn version_diff(&self, before: InstalledVersion) -> InstallerDiff {
        InstallerDiff { before, after: (!self.absent).then(|| self.version.clone()) }
    }
}

/// How the installed version differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct InstallerDiff {
    pub(super) before: InstalledVersion,
    /// The declared version; `None` for a removal.
    after: Option<String>,
}

/// The version that the probe found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) enum InstalledVersion {
    Absent,
    Found(String),
    /// The probe cannot run before an earlier step.
    NotKnown,
}

impl ResourceDiff for InstallerDiff {
    fn render_changes(&self) -> Vec<AttributeChange> {
        let from = match &self.before {
            InstalledVersion::Absent => None,
            InstalledVersion::Found(version) => Some(version.as_str()),
            InstalledVersion::NotKnown => Some("not known yet"),
        };
        vec![AttributeChange::new("version", from, self.after.as_deref())]
    }
}

const PROVIDE_HINT: &str = "add a step that installs it before this one, for example an `artifact` step";
const RESTORE_UNINSTALLER_HINT: &str =
    "uninstall the software by hand, or install it once more, which brings its uninstaller back";

/// Whether the program can run.
enum ProgramReadiness {
    Yes,
    /// An earlier step provides it.
    Comes,
    Blocks(Box<Assessment<InstallerDiff>>),
}
