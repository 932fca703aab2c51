//! How the library loads an inventory for a verb.

use super::env;
use super::secret_programs::{self, SecretNeed};
use super::settings::CliSettings;
use crate::config::{self, LoadOptions, SecretPrograms};

/// Returns the options for loading an inventory: every verb includes the built-in recipes.
pub(super) fn build_load_options(settings: &CliSettings) -> LoadOptions<'static> {
    let need = match settings.replay.observed.is_some() {
        true => SecretNeed::Unread("`--observed` starts no program"),
        false => settings.secrets,
    };
    let run = |for_notify| SecretPrograms::Run { run: &secret_programs::run_program, for_notify };
    LoadOptions {
        trust: settings.trust,
        embedded: config::builtin_data::BUILTIN_RECIPES,
        env: &env::read_any_variable,
        programs: match need {
            SecretNeed::No => SecretPrograms::Skip,
            SecretNeed::Unread(why) => SecretPrograms::Report(why),
            SecretNeed::Hosts => run(false),
            SecretNeed::HostsAndNotify => run(true),
        },
    }
}
