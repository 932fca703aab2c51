//! Holds of people that a change releases, noted on the host until they are set again: the script may be killed, or the
//! host lose its power, in between. The next run on the host sets them again (`state::build_prepare_script`), or the next
//! change of the same package.

/// Requires `fail`. `note_released MANAGER PACKAGE…` adds packages to the note before their holds are released,
/// `forget_released` removes it, and `noted_before MANAGER` prints the packages of an earlier script that are still
/// noted, each after a blank.
pub(in crate::resource) const NOTE_RELEASED: &str = r#"
released=/var/lib/forge/released
note_released() {
  manager=$1
  shift
  mkdir -p -- "${released%/*}" || fail "cannot make ${released%/*}"
  {
    if [ -e "$released" ]; then cat -- "$released" || exit 1; fi
    for package; do printf '%s %s\n' "$manager" "$package"; done
  } >"$released.new" && sync -- "$released.new" && mv -f -- "$released.new" "$released" || fail "cannot note the hold of$*"
}
forget_released() { rm -f -- "$released"; }
noted_before() { sed -n "s/^$1 / /p" "$released" 2>/dev/null | tr -d '\n'; }
"#;
