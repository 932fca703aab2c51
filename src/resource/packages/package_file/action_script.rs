//! The commands of a package file: place it on the host, check it against the declaration, install it.

use super::declaration::{PackageFileResource, PackageFileSource};
use super::diff::PackageFileDiff;
use crate::probe::PackageManagerKind;
use crate::resource::packages::package::{action_script as apt, dnf};
use crate::resource::shared::shell;
use crate::resource::{Action, ActionScript};
use crate::script::{ShellFragment, safe_path};

pub(super) fn render_action(want: &PackageFileResource, diff: &PackageFileDiff) -> Action {
    match diff {
        PackageFileDiff::Install { name, version, downgrade, .. } => {
            render_install(want, name, version.to.as_deref(), *downgrade)
        }
        PackageFileDiff::Finish { name, version, .. } => render_install(want, name, Some(version), false),
        PackageFileDiff::Await { name, version, .. } => {
            render_install(want, name.as_deref().unwrap_or_default(), version.as_deref(), false)
        }
        PackageFileDiff::Remove { name, manager, .. } => render_removal(want, name, *manager),
    }
}

/// Opens an action of the manager for the package `name`; returns it with the hints for its output.
fn open_script(
    want: &PackageFileResource,
    name: &str,
    manager: PackageManagerKind,
) -> (ShellFragment, &'static [(&'static str, &'static str)]) {
    match manager {
        PackageManagerKind::Dpkg => (apt::open_apt_script(want.lock_timeout, name), apt::EXPLAIN),
        PackageManagerKind::Rpm => (dnf::open_dnf_script(want.lock_timeout, name), dnf::EXPLAIN),
    }
}

fn render_removal(want: &PackageFileResource, name: &str, manager: PackageManagerKind) -> Action {
    let (opened, explain) = open_script(want, name, manager);
    let names = [name.to_owned()];
    let body = match manager {
        PackageManagerKind::Dpkg => apt::render_removal(&names, false, opened),
        PackageManagerKind::Rpm => dnf::render_removal(&names, opened),
    };
    Action::Script(ActionScript { body: shell::close_action(body), long: true, explain })
}

/// Installs the file. An unknown version is not compared with the file's.
fn render_install(want: &PackageFileResource, name: &str, version: Option<&str>, downgrade: bool) -> Action {
    let (opened, explain) = open_script(want, name, want.manager);
    let action = opened
        .code("set --")
        .word(name)
        .word(version.unwrap_or_default())
        .word(want.sha256.as_deref().unwrap_or_default())
        .code("\nname=$1 version=$2 sha256=$3\n");
    let placed = render_placement(want, action).code(CHECK_DIGEST);
    let body = match want.manager {
        PackageManagerKind::Dpkg => {
            let option = if downgrade { "downgrade=--allow-downgrades\n" } else { "downgrade=\n" };
            placed.code(CHECK_DEB).code(option).code(INSTALL_DEB)
        }
        PackageManagerKind::Rpm => placed.code(CHECK_RPM).code("run_dnf install -- \"$file\" || exit 1\n"),
    };
    Action::Script(ActionScript { body: shell::close_action(body), long: true, explain })
}

/// Sets `$file` to the path of the file.
fn render_placement(want: &PackageFileResource, action: ShellFragment) -> ShellFragment {
    match &want.from {
        PackageFileSource::Path(path) => action
            .code(safe_path::ENTER_DIRECTORY)
            .code(safe_path::REQUIRE_TRUSTED_FILE)
            .code("set --")
            .word(path)
            .code("\nfile=$1\n[ -f \"$file\" ] || fail \"there is no file at $file\"\ntrusted \"$file\"\n"),
        PackageFileSource::Source(body) => {
            let ends = if want.manager.is_dpkg() { ".deb" } else { ".rpm" };
            let action = action.code(FOLDER).code("set --").word(ends).code("\nfile=$folder/package$1\nprintf %s");
            action.data(body.bytes()).code(" | base64 -d >\"$file\" || fail \"cannot write $file\"\n")
        }
        PackageFileSource::Nothing => action,
    }
}

/// apt reads the file with its own account, which must be able to enter the directory.
const FOLDER: &str = r#"folder=$(mktemp -d /var/tmp/forge-package.XXXXXX) || fail "cannot make a folder under /var/tmp"
chmod 755 -- "$folder"
trap 'rm -rf -- "$folder"' EXIT
trap 'exit 143' HUP INT TERM
"#;

const CHECK_DIGEST: &str = r#"
[ -f "$file" ] || fail "there is no file at $file"
if [ -n "$sha256" ]; then
  found=$(sha256sum <"$file") || fail "cannot read $file"
  found=${found%% *}
  if [ "$found" != "$sha256" ]; then fail "$file has the sha256 $found, declared is $sha256: nothing was installed"; fi
fi
"#;

const CHECK_DEB: &str = r#"
found=$(dpkg-deb -W --showformat='${Package} ${Version}' -- "$file") || fail "the file is not a .deb"
if [ "${found%% *}" != "${name%%:*}" ] || ! dpkg --compare-versions "${found#* }" eq "${version:-${found#* }}"; then
  fail "the file holds $found, $name $version is declared: nothing was installed"
fi
"#;

/// The declared version may omit an epoch of 0 and the release; the file may have an epoch of 0 or none.
const CHECK_RPM: &str = r#"
found=$(rpm -qp --nosignature --qf '%{NAME} %{EVR}' -- "$file") || fail "the file is not a .rpm"
bare=${version#0:}
holds=${found#* }
holds=${holds#0:}
if [ "${found%% *}" != "$name" ] || { [ -n "$bare" ] && [ "$holds" != "$bare" ] && [ "${holds%-*}" != "$bare" ]; }; then
  fail "the file holds $found, $name $version is declared: nothing was installed"
fi
"#;

const INSTALL_DEB: &str = r#"
finish
apt install --no-remove $downgrade -- "$file" || exit 1
"#;
