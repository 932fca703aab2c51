//! Runs scripts in real shells: a truncated script runs nothing, and values arrive byte for byte.

use super::*;
use crate::model::SecretStore;
use proptest::prelude::*;
use secrecy::ExposeSecret;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

const SHELLS: [&str; 3] = ["sh", "dash", "bash"];

fn run_shell(shell: &str, text: &[u8]) -> Vec<u8> {
    let mut child = Command::new(shell)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the shell starts");
    // A shell that exits early closes its stdin.
    let _ = child.stdin.take().expect("is piped").write_all(text);
    child.wait_with_output().expect("the shell ends").stdout
}

fn render_script(body: ShellFragment) -> Result<String, FragmentError> {
    let token = ScriptToken::new("0123456789abcdef0123456789abcdef");
    let script = ShellScript { body, token, limit: Duration::from_secs(1) };
    script.render_text(&SecretStore::default()).map(|text| text.expose_secret().to_owned())
}

fn print_fragment(value: &str) -> ShellFragment {
    ShellFragment::new().code("printf %s").word(value)
}

#[test]
fn truncated_script_runs_nothing() {
    let body = ShellFragment::new()
        .code("echo ran\nif :; then echo ran; fi\ncase x in x) echo ran ;; esac\n")
        .append_fragment(print_fragment("}\nforge_main\necho ran\n"));
    let text = render_script(body).expect("no NUL");
    for shell in ["dash", "bash"] {
        assert!(!run_shell(shell, text.as_bytes()).is_empty(), "the whole script runs");
        for end in 0..text.len() {
            let out = run_shell(shell, &text.as_bytes()[..end]);
            assert_eq!(String::from_utf8_lossy(&out), "", "{shell} ran {:?}", &text[..end]);
        }
    }
}

#[test]
fn hostile_values_are_quoted_unchanged() {
    let values = [
        "",
        "'",
        "''",
        "\\",
        "\\'",
        "\"",
        "a\nb\n",
        "\n",
        "$(touch /tmp/x)",
        "`id`",
        "$HOME",
        "-n",
        "%s",
        "*",
        "~",
        "\u{202e}txt.exe",
        "\u{1b}[31m\u{7}",
        "\r\n",
        "\t",
        "!!",
        "#",
        "\u{441}\u{81}\u{88}",
        "\u{e000}x\u{e001}",
        "'; rm -rf /nowhere; '",
    ];
    let body = values.iter().fold(ShellFragment::new().code("printf '%s\\n--\\n'"), |body, value| body.word(*value));
    let expected: String = values.iter().map(|value| format!("{value}\n--\n")).collect();
    for shell in SHELLS {
        let out = run_shell(shell, render_script(body.clone()).expect("no NUL").as_bytes());
        assert_eq!(String::from_utf8_lossy(&out), expected, "{shell}");
    }
}

#[test]
fn nested_values_and_binary_data_are_passed_unchanged() {
    let value = "a'b\\'\n$(x)\u{1b}";
    let nested = ShellFragment::new()
        .code("sh -c")
        .nested_word(ShellFragment::new().code("sh -c").nested_word(print_fragment(value)));
    let data = ShellFragment::new().code("printf %s").data(b"\0\xff'\n".to_vec()).code(" | base64 -d");
    for shell in SHELLS {
        assert_eq!(run_shell(shell, render_script(nested.clone()).expect("no NUL").as_bytes()), value.as_bytes());
        assert_eq!(run_shell(shell, render_script(data.clone()).expect("no NUL").as_bytes()), b"\0\xff'\n");
    }
}

#[test]
fn nul_byte_is_rejected_at_any_depth() {
    assert_eq!(render_script(print_fragment("a\0b")), Err(FragmentError::Nul));
    assert_eq!(
        render_script(ShellFragment::new().code("sh -c").nested_word(print_fragment("\0"))),
        Err(FragmentError::Nul)
    );
    assert!(render_script(ShellFragment::new().code("printf %s").data(vec![0])).is_ok(), "data is encoded");
}

#[test]
fn printed_bytes_arrive_unchanged() {
    let bodies: [&[u8]; 6] = [b"", b"plain 'text'\n\n", b"", b"-n %s \\n", b"\0\xff\n", "\u{e9}\r\n".as_bytes()];
    for body in bodies {
        let text = render_script(ShellFragment::new().print_bytes(body)).expect("no NUL");
        for shell in SHELLS {
            assert_eq!(run_shell(shell, text.as_bytes()), body, "{shell}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_value_is_passed_unchanged_in_every_shell(value in "[^\0]{0,60}", hostile in "['\"\\\\$`(){};&|<>\n\r\t !*?~#%\u{1b}\u{202e}-]{0,40}") {
        for value in [value, hostile] {
            let text = render_script(print_fragment(&value)).expect("no NUL");
            for shell in SHELLS {
                let out = run_shell(shell, text.as_bytes());
                prop_assert_eq!(&out, value.as_bytes());
            }
        }
    }

    #[test]
    fn any_truncated_script_runs_nothing(value in "['\"\\\\$(){};\na-c ]{0,40}", at in any::<prop::sample::Index>()) {
        let text = render_script(ShellFragment::new().code("echo ran; printf %s").word(value)).expect("no NUL");
        let bytes = &text.as_bytes()[..at.index(text.len())];
        for shell in SHELLS {
            prop_assert_eq!(run_shell(shell, bytes), b"");
        }
    }
}
