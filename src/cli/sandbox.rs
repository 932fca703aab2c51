//! `forge sandbox`.

use super::backend::{Backend, ProjectSandboxes};
use super::error::CliError;
use super::settings::CliSettings;
use super::shared_args::InventoryArg;
use super::verb_context::{VerbContext, VerbResult, block_on};
use crate::config;
use crate::model::{ExitCode, HardwareBoard, HostName};
use crate::state::StateStore;
use crate::transport::{self, Sandbox};
use crate::view::SandboxList;
use anyhow::anyhow;
use camino::{Utf8Path, Utf8PathBuf};

/// List, enter or reset sandboxes: simulated hosts on this machine
///
/// A host with `connect: { transport: sandbox }` is a copy-on-write view of this machine. It is created on first use
/// and kept running by a small process, so changes persist between commands. Its files are held in memory; `reset`
/// discards the sandbox, and the next command creates a new one.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "Examples:
  forge sandbox enter gpu-01 -i inventories/demo.yaml
  forge sandbox enter gpu-01 -i inventories/demo.yaml -- systemctl status gpu-agent
  forge sandbox list -i inventories/demo.yaml
  forge sandbox reset gpu-01 -i inventories/demo.yaml
  forge sandbox reset                          every sandbox of ./inventory.yaml"
)]
pub struct SandboxArgs {
    #[command(subcommand)]
    what: SandboxCommand,
}

#[derive(Debug, clap::Subcommand)]
enum SandboxCommand {
    /// List the sandboxes of the inventory's cluster and whether they are running
    List,
    /// Discard sandboxes and everything in them
    Reset {
        /// Host; without it, every sandbox of the cluster
        host: Option<String>,
    },
    /// Run a program in a sandbox as root; without PROGRAM, run a shell
    Enter {
        /// Host of the inventory that is a sandbox
        host: String,
        /// Program and its arguments
        #[arg(last = true, value_name = "PROGRAM")]
        argv: Vec<String>,
    },
}

/// Returns the folder of the sandboxes of an inventory's cluster. Absolute, because a sandbox outlives this run's working
/// directory.
pub(super) fn find_sandbox_root(inventory: &Utf8Path, cluster: &str, settings: &CliSettings) -> Utf8PathBuf {
    let folder = StateStore::new(&settings.state_folder(inventory), cluster).root().join("sandbox");
    camino::absolute_utf8(&folder).unwrap_or(folder)
}

pub fn run_sandbox<B: Backend>(cx: &VerbContext<'_, B>, args: &SandboxArgs) -> VerbResult {
    let target = cx.resolve_target(&InventoryArg::default())?;
    let output = cx.output_for(&target);
    // To list or to discard sandboxes needs no valid recipes.
    let cluster = match args.what {
        SandboxCommand::Enter { .. } => None,
        SandboxCommand::List | SandboxCommand::Reset { .. } => config::read_cluster_name(&target.path),
    };
    let ProjectSandboxes { root, hosts } = match cluster {
        Some(cluster) => {
            let root = find_sandbox_root(&target.path, &cluster, cx.settings);
            ProjectSandboxes { root, hosts: Vec::new() }
        }
        None => {
            let (project, _) = cx.load_project(&target)?;
            cx.backend.list_sandboxes(&project, cx.settings)
        }
    };
    let sandboxes = match &args.what {
        SandboxCommand::Enter { host, argv } => return enter_sandbox(&root, &hosts, host, argv),
        SandboxCommand::List => SandboxList { ended: false, list: list_sandboxes(&root)? },
        SandboxCommand::Reset { host } => SandboxList { ended: true, list: reset_sandboxes(&root, host.as_deref())? },
    };
    output.write_result(&|writer, out| writer.write_sandboxes(&sandboxes, ExitCode::Done, out))?;
    Ok(ExitCode::Done)
}

fn enter_sandbox(
    root: &Utf8Path,
    hosts: &[(HostName, Option<HardwareBoard>)],
    host: &str,
    argv: &[String],
) -> VerbResult {
    let Some((host, board)) = hosts.iter().find(|(known, _)| known.as_str() == host) else {
        let error = CliError::usage(format!("sandbox `{host}` not found in the inventory"));
        let known: Vec<&str> = hosts.iter().map(|(known, _)| known.as_str()).collect();
        let general = || "a sandbox is a host with `connect: { transport: sandbox }`".to_owned();
        return Err(error.hint(config::suggest_host(host, &known).unwrap_or_else(general)));
    };
    let shell = ["sh".to_owned()];
    let argv = if argv.is_empty() { &shell } else { argv };
    block_on(async {
        match transport::enter_sandbox(root, host, *board, argv).await {
            Ok(0) => Ok(ExitCode::Done),
            Ok(status) => Err(CliError::failed(format!("`{}` exited with {status} in the sandbox", argv[0]))),
            Err(error) => {
                let hint = error.hint.unwrap_or_default();
                Err(CliError::unexpected(anyhow!(error.message)).hint(hint))
            }
        }
    })
}

fn list_sandboxes(root: &Utf8Path) -> Result<Vec<Sandbox>, CliError> {
    transport::list_sandboxes(root).map_err(sandbox_error)
}

/// Discards the sandbox of `host`, or all, and returns the discarded ones.
fn reset_sandboxes(root: &Utf8Path, host: Option<&str>) -> Result<Vec<Sandbox>, CliError> {
    let mut list = list_sandboxes(root)?;
    if let Some(host) = host {
        let known: Vec<&str> = list.iter().map(|sandbox| sandbox.host.as_str()).collect();
        let hint = config::suggest_host(host, &known);
        list.retain(|sandbox| sandbox.host == host);
        if list.is_empty() {
            let error = CliError::usage(format!("sandbox `{host}` not found"));
            return Err(error.hint(hint.unwrap_or_else(|| "list sandboxes with `forge sandbox list`".to_owned())));
        }
    }
    for sandbox in &list {
        transport::reset_sandbox(root, &sandbox.host).map_err(sandbox_error)?;
    }
    Ok(list)
}

fn sandbox_error(error: std::io::Error) -> CliError {
    let kind = error.kind();
    let failed = CliError::unexpected(error);
    match kind {
        std::io::ErrorKind::PermissionDenied => {
            failed.hint("run this as the user who created the sandbox, or with sudo")
        }
        _ => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_sandbox_gets_a_similar_name_as_a_hint() {
        let hosts = [(HostName::new("gpu-02"), None), (HostName::new("login"), None)];
        let check = |name: &str, hint: &str| {
            let error = enter_sandbox(Utf8Path::new("/"), &hosts, name, &[]).unwrap_err();
            assert_eq!(error.advice().1, Some(hint), "{name}");
        };
        check("gpu-2", "did you mean `gpu-02`?");
        check("logn", "did you mean `login`?");
        check("db", "a sandbox is a host with `connect: { transport: sandbox }`");
    }
}
