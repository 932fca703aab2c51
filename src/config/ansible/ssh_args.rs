//! Converts ssh arguments of Ansible to the settings that forge has: jump hosts and the configuration file.

use super::inventory::AnsibleVar;
use super::var_meaning::{SettingSlot, VarMeaning, is_path, to_scalar_text};
use crate::config::inventory::is_address;
use crate::config::scalar;
use crate::model::Value;

/// Why ssh arguments are not converted; follows their name.
pub(super) const NOT_CONVERTED: &str = "is not converted: forge supports only jump hosts and `-F` in ssh arguments; put other options into \
     `~/.ssh/config`, or into a file that you set as `connect: { config: FILE }`";

/// The options of ssh(1) that have an argument.
const WITH_ARGUMENT: &str = "bceilmopBDEFIJLOPQRSwW";

/// Converts ssh arguments, each option by itself.
pub(super) fn translate_ssh_args(var: &AnsibleVar) -> VarMeaning {
    let text = match to_scalar_text(var) {
        Ok(text) => text,
        Err(why) => return VarMeaning::Lost(SettingSlot::Connect("jump"), why),
    };
    let words = shlex::split(&text).unwrap_or_default();
    if words.is_empty() {
        return VarMeaning::Anyway;
    }
    let (mut settings, mut rest) = (Vec::new(), Vec::new());
    for (option, argument) in split_options(&words) {
        match convert_option(option, argument).map(|(key, value)| (SettingSlot::Connect(key), Value::from(value))) {
            // ssh uses the first value of an option.
            Some((slot, value)) if settings.iter().all(|(other, _)| *other != slot) => {
                rest.extend(is_direct(&value).then(|| name_option(option, argument)));
                settings.push((slot, value));
            }
            _ => rest.push(name_option(option, argument)),
        }
    }
    match settings.is_empty() {
        true => VarMeaning::Nowhere(NOT_CONVERTED),
        // Without a value, the jump host of a group does not count for the host.
        false => VarMeaning::Parts(settings.into_iter().map(without_none).collect(), rest),
    }
}

/// Splits words into options with their arguments, which follow in the same word or the next one.
fn split_options(words: &[String]) -> Vec<(&str, Option<&str>)> {
    let mut words = words.iter().map(String::as_str);
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let letter = word.strip_prefix('-').and_then(|rest| rest.chars().next());
        options.push(match letter.filter(|letter| WITH_ARGUMENT.contains(*letter)) {
            Some(_) if word.len() > 2 => (&word[..2], Some(&word[2..])),
            Some(_) => (word, words.next()),
            None => (word, None),
        });
    }
    options
}

/// Returns the key of `connect` and its value for an option that has one.
fn convert_option<'a>(option: &str, argument: Option<&'a str>) -> Option<(&'static str, &'a str)> {
    let argument = argument?;
    match option {
        "-J" if are_jump_hosts(argument) => Some(("jump", argument)),
        "-F" if is_ssh_config(argument) => Some(("config", argument)),
        "-o" => {
            let (key, hops) = split_config_line(argument)?;
            (key.eq_ignore_ascii_case("ProxyJump") && are_jump_hosts(hops)).then_some(("jump", hops))
        }
        _ => None,
    }
}

/// Splits the argument of `-o`: `Key=value` or `Key value`.
fn split_config_line(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(|c: char| c == '=' || c.is_ascii_whitespace())?;
    Some((key, value.trim_start_matches(|c: char| c == '=' || c.is_ascii_whitespace())))
}

/// Names an option without its value, which may contain a password.
fn name_option(option: &str, argument: Option<&str>) -> String {
    match (option, argument.and_then(split_config_line)) {
        ("-o", Some((key, _))) => format!("-o {key}"),
        _ => option.to_owned(),
    }
}

fn without_none((slot, value): (SettingSlot, Value)) -> (SettingSlot, Option<Value>) {
    let value = Some(value).filter(|value| !is_direct(value));
    (slot, value)
}

/// Reports whether ssh connects without a jump host, also where its configuration names one.
fn is_direct(hops: &Value) -> bool {
    hops.as_str().is_some_and(|hops| hops.eq_ignore_ascii_case("none"))
}

fn are_jump_hosts(hops: &str) -> bool {
    hops.split(',').all(|hop| match hop.split_once('@') {
        Some((user, host)) => scalar::is_name(user) && is_address(host),
        None => is_address(hop),
    })
}

/// Reports whether `path` names a file: for `none`, ssh reads no configuration.
fn is_ssh_config(path: &str) -> bool {
    is_path(path) && !path.eq_ignore_ascii_case("none")
}
