//! `forge init`.

use super::atomic_file;
use super::backend::Backend;
use super::error::CliError;
use super::output::VerbOutput;
use super::verb_context::{VerbContext, VerbResult};
use crate::config::{self, AnsibleConversion, AnsibleDifference, StarterHost, StarterInventory};
use crate::model::{ExitCode, Value};
use crate::view::{self, InitResult, RecipeFile, starter_inventory};
use camino::{Utf8Path, Utf8PathBuf};

/// Create a starter inventory and an example recipe
///
/// Hosts are written as in an inventory, with ranges: `gpu[01:08]`, `admin@login:2222`, `gpu[1:4]=10.0.0.[11:14]`.
/// Without hosts, the inventory contains this machine. `--from-ansible` converts an Ansible inventory (INI or YAML,
/// file or directory, with its `group_vars` and `host_vars`) and lists what cannot be converted: vaulted values,
/// templates in variables, settings without a counterpart. Existing files are never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  forge init                                  this machine only
  forge init gpu[01:08] admin@login:2222      hosts by name
  forge init --from-ansible hosts.ini --into cluster.yaml
  forge init --from-ansible inventories/prod --into prod.yaml --format json | jq '.init.differences'")]
pub struct InitArgs {
    /// Hosts: [USER@]NAME[=ADDRESS][:PORT], names and addresses with ranges
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,
    /// Inventory file to create
    #[arg(long, value_name = "FILE", default_value = "inventory.yaml")]
    pub into: Utf8PathBuf,
    /// Convert this Ansible inventory, a file or a directory
    #[arg(long, value_name = "INVENTORY", conflicts_with = "hosts")]
    pub from_ansible: Option<Utf8PathBuf>,
    /// Cluster name; defaults to the name of the directory
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
}

pub fn run_init<B: Backend>(cx: &VerbContext<'_, B>, args: &InitArgs) -> VerbResult {
    cx.settings.json_into.iter().try_for_each(|path| atomic_file::check_writable(path))?;
    reject_existing_file(&args.into)?;
    let output = VerbOutput {
        console: cx.console,
        settings: cx.settings,
        target: Some(inventory_arguments(&args.into)),
        resume: None,
    };
    let (starting, differences) = build_starting_inventory(args, &output)?;
    let text = starter_inventory::render_inventory(&starting, args.from_ansible.as_deref().map(Utf8Path::as_str));
    let recipe = write_starting_files(&args.into, &text)?;
    let (_, diags, sources) = cx.backend.load_project(&args.into, cx.settings);
    output.write_diags(&diags, &sources)?;
    if diags.has_errors() {
        return Err(CliError::input(format!(
            "`{}` was written, but is not valid yet: fix the errors above",
            args.into
        )));
    }
    let groups = starting.groups.keys().filter(|name| *name != "all").count();
    let init =
        InitResult { inventory: args.into.to_string(), recipe, hosts: starting.count_hosts(), groups, differences };
    output.write_result(&|writer, out| writer.write_init_result(&init, ExitCode::Done, out))?;
    Ok(ExitCode::Done)
}

fn build_starting_inventory(
    args: &InitArgs,
    output: &VerbOutput<'_>,
) -> Result<(StarterInventory, Vec<AnsibleDifference>), CliError> {
    let cluster = args.cluster.clone().unwrap_or_else(|| folder_name(&args.into));
    let cluster = config::sanitize_cluster_name(&cluster);
    match &args.from_ansible {
        Some(path) => convert_ansible_inventory(path, config::convert_ansible_inventory(path, &cluster), output),
        None if args.hosts.is_empty() => Ok((local_inventory(cluster), Vec::new())),
        None => StarterInventory::from_typed_hosts(cluster, &args.hosts)
            .map(|starting| (starting, Vec::new()))
            .map_err(CliError::usage),
    }
}

fn convert_ansible_inventory(
    path: &Utf8Path,
    converted: AnsibleConversion,
    output: &VerbOutput<'_>,
) -> Result<(StarterInventory, Vec<AnsibleDifference>), CliError> {
    output.write_diags(&converted.diags, &converted.sources)?;
    match converted.starting {
        Some(starting) if starting.hosts.is_empty() => {
            let error = CliError::input(format!("`{path}` has no hosts; nothing was written"));
            let notes = converted.differences.iter().map(|other| format!("{}: {}", other.at.join(", "), other.what));
            Err(notes.fold(error, CliError::note))
        }
        Some(starting) => Ok((starting, converted.differences)),
        None => {
            let errors = view::format_count(converted.diags.count_errors(), "error");
            Err(CliError::input(format!("{errors} in `{path}`; nothing was written")))
        }
    }
}

fn local_inventory(cluster: String) -> StarterInventory {
    let host = StarterHost { connect: [("transport", Value::from("local"))].into(), ..StarterHost::default() };
    StarterInventory { cluster, hosts: [("localhost".to_owned(), host)].into(), ..StarterInventory::default() }
}

/// Returns the name of the directory that the file is written to.
fn folder_name(path: &Utf8Path) -> String {
    let folder = parent_folder(path).canonicalize_utf8().ok();
    folder.and_then(|folder| folder.file_name().map(str::to_owned)).unwrap_or_default()
}

fn parent_folder(path: &Utf8Path) -> &Utf8Path {
    path.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."))
}

fn inventory_arguments(path: &Utf8Path) -> String {
    match path.as_str() {
        "inventory.yaml" => String::new(),
        path => shlex::try_quote(path).map(Into::into).unwrap_or_default(),
    }
}

fn reject_existing_file(path: &Utf8Path) -> Result<(), CliError> {
    match path.symlink_metadata() {
        Ok(_) => Err(file_exists_error(path)),
        Err(_) => Ok(()),
    }
}

fn file_exists_error(path: &Utf8Path) -> CliError {
    CliError::usage(format!("`{path}` already exists; init does not overwrite files"))
        .hint("choose another path with `--into`, or move the file away")
}

/// Writes the inventory, and the example recipe unless a recipe of that name exists.
fn write_starting_files(path: &Utf8Path, text: &str) -> Result<RecipeFile, CliError> {
    let recipes = parent_folder(path).join("recipes");
    fs_err::create_dir_all(&recipes).map_err(CliError::unexpected)?;
    let recipe = recipes.join("hello.yaml");
    let path_shown = recipe.strip_prefix("./").unwrap_or(&recipe).to_string();
    let is_new = atomic_file::create_file(&recipe, starter_inventory::STARTER_RECIPE)?;
    match atomic_file::create_file(path, text)? {
        true => Ok(RecipeFile { path: path_shown, is_new }),
        false => Err(file_exists_error(path)),
    }
}
