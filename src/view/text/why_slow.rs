//! Why a job is slow: each question with its answers, then the causes with their repair.

use super::shared_lines::write_simulated;
use crate::acceptance::{AnsweredQuestion, CauseLikelihood, QuestionAnswer, SharedAnswer};
use crate::engine::{CauseRepair, SlowCause, SlowDiagnosis};
use crate::model::HostName;
use crate::view::acceptance::write_text;
use crate::view::style::{BAD, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::{escape, fold, format_count, formatting};
use std::io::{self, Write};

/// Evidence is cut after this number of characters, unless `-v` is given. The JSON output has all of it.
const EVIDENCE_CHARS: usize = 160;

/// Writes the path of questions, and the causes. `all` shows each answer, also those that exclude a cause.
pub fn write_diagnosis(diagnosis: &SlowDiagnosis, all: bool, out: &mut dyn Write) -> io::Result<()> {
    write_simulated(diagnosis.simulated.iter(), out)?;
    diagnosis.path.iter().try_for_each(|asked| write_question(asked, diagnosis.hosts.len(), all, out))?;
    for silent in &diagnosis.unreachable {
        let why = escape::escape_untrusted(&silent.why);
        writeln!(out, "{} {}: {why}", paint(UNKNOWN, "not asked"), escape::escape_line(silent.host.as_str()))?;
    }
    for pod in &diagnosis.elsewhere {
        let why = "no host of the inventory runs it";
        writeln!(out, "{} pod {}: {why}", paint(UNKNOWN, "not asked"), escape::escape_untrusted(pod))?;
    }
    writeln!(out)?;
    write_causes(diagnosis, out)?;
    match &diagnosis.measured {
        Some(measured) => {
            writeln!(out)?;
            write_text(measured, measured.exit_code(), out)
        }
        None => Ok(()),
    }
}

fn write_question(asked: &AnsweredQuestion, hosts: usize, all: bool, out: &mut dyn Write) -> io::Result<()> {
    let has = |wanted: fn(&QuestionAnswer) -> bool| asked.answers.iter().any(|shared| wanted(&shared.answer));
    let (mark, style) = if has(|answer| matches!(answer, QuestionAnswer::Found(_))) {
        ("found", BAD)
    } else if has(|answer| matches!(answer, QuestionAnswer::Unknown(_))) {
        ("unknown", UNKNOWN)
    } else if has(|answer| matches!(answer, QuestionAnswer::Clear(_))) {
        ("excluded", GOOD)
    } else {
        // Not asked of any host: it says nothing.
        return Ok(());
    };
    let question = escape::escape_line(&asked.question.question);
    let is_short = |shared: &&SharedAnswer| all || !matches!(shared.answer, QuestionAnswer::Clear(_));
    let clear: Vec<&SharedAnswer> =
        asked.answers.iter().filter(|shared| matches!(shared.answer, QuestionAnswer::Clear(_))).collect();
    // One answer of all hosts fits on the line of its question.
    let inline = match (style, clear.as_slice(), all) {
        (style, [one], false) if style == GOOD => format!(" {}", paint(DIM, format_evidence(&one.answer, all))),
        _ => String::new(),
    };
    writeln!(out, "{} {question}{inline}", paint(style, format_args!("{mark:<8}")))?;
    for shared in asked.answers.iter().filter(is_short) {
        let text = match &shared.answer {
            QuestionAnswer::Found(_) | QuestionAnswer::Unknown(_) | QuestionAnswer::Clear(_) => {
                format_evidence(&shared.answer, all)
            }
            QuestionAnswer::NotApplicable | QuestionAnswer::AnsweredBy(_) if !all => continue,
            QuestionAnswer::NotApplicable => "does not apply".to_owned(),
            QuestionAnswer::AnsweredBy(earlier) => format!("answered by `{}`", escape::escape_line(earlier)),
        };
        let place = match shared.hosts.len() == hosts && hosts > 1 {
            true => format!("all {}", format_count(hosts, "host")),
            false => fold_hosts(&shared.hosts),
        };
        writeln!(out, "           {place}: {text}")?;
    }
    Ok(())
}

fn format_evidence(answer: &QuestionAnswer, all: bool) -> String {
    let text = match answer {
        QuestionAnswer::Found(text) | QuestionAnswer::Clear(text) | QuestionAnswer::Unknown(text) => text.raw(),
        QuestionAnswer::NotApplicable | QuestionAnswer::AnsweredBy(_) => "",
    };
    match all {
        true => escape::escape_line(text).into_owned(),
        false => escape::escape_truncated(text, EVIDENCE_CHARS),
    }
}

fn fold_hosts(hosts: &[HostName]) -> String {
    escape::escape_line(&fold::fold_names(hosts.iter().map(HostName::as_str))).into_owned()
}

fn write_causes(diagnosis: &SlowDiagnosis, out: &mut dyn Write) -> io::Result<()> {
    if diagnosis.hosts.is_empty() {
        return writeln!(out, "{}", paint(UNKNOWN, "no host answered: nothing was found or excluded"));
    }
    let hosts = format_count(diagnosis.hosts.len(), "host");
    let Some((first, others)) = diagnosis.causes.split_first() else {
        let unknown = |asked: &&AnsweredQuestion| {
            asked.answers.iter().any(|shared| matches!(shared.answer, QuestionAnswer::Unknown(_)))
        };
        let open = diagnosis.path.iter().filter(unknown).count();
        let rest = if open == 0 {
            String::new()
        } else {
            format!("; {} could not be answered", format_count(open, "question"))
        };
        writeln!(out, "{} on {hosts}{rest}", paint(GOOD, "no cause found"))?;
        return writeln!(
            out,
            "{}",
            paint(DIM, "measure the network: `forge test` names a slow host, adapter or cable")
        );
    };
    writeln!(out, "{} {}", paint(HEAD, "most likely cause:"), format_cause(first))?;
    write_repair(first, out)?;
    if !others.is_empty() {
        writeln!(out, "{}", paint(HEAD, "also found:"))?;
    }
    for cause in others {
        writeln!(out, "  {}", format_cause(cause))?;
        write_repair(cause, out)?;
    }
    Ok(())
}

fn format_cause(cause: &SlowCause) -> String {
    let word = match cause.likelihood {
        CauseLikelihood::Certain => "certain",
        CauseLikelihood::Likely => "likely",
        CauseLikelihood::Possible => "possible",
    };
    format!(
        "{} on {} ({word}): {}",
        escape::escape_line(&cause.question),
        fold_hosts(&cause.hosts),
        escape::escape_line(&cause.cause)
    )
}

fn write_repair(cause: &SlowCause, out: &mut dyn Write) -> io::Result<()> {
    let text = match &cause.repair {
        CauseRepair::Declared(recipes) => format!(
            "recipe {} is declared: `forge plan --on {}` shows whether it would change something",
            formatting::list_names(recipes),
            fold_hosts(&cause.hosts)
        ),
        CauseRepair::Declare(recipes) => format!("declare one of the recipes {}", formatting::list_names(recipes)),
        CauseRepair::Action(action) => action.clone(),
        CauseRepair::Evidence => return Ok(()),
    };
    let otherwise = cause.otherwise.as_ref().map(|otherwise| format!("; if not: {otherwise}")).unwrap_or_default();
    writeln!(out, "    {} {}{}", paint(DIM, "repair:"), escape::escape_line(&text), escape::escape_line(&otherwise))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptance::{SlowQuestion, group_answers};
    use crate::model::ExitCode;

    fn question(name: &str, text: &str) -> SlowQuestion {
        SlowQuestion {
            name: name.to_owned(),
            question: text.to_owned(),
            cause: "it is slow then".to_owned(),
            likelihood: CauseLikelihood::Likely,
            recipes: vec!["pcie-acs".to_owned()],
            action: None,
        }
    }

    fn render(diagnosis: &SlowDiagnosis, all: bool) -> String {
        let mut out = Vec::new();
        write_diagnosis(diagnosis, all, &mut out).unwrap();
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
    }

    fn sample_diagnosis() -> SlowDiagnosis {
        let hosts = [HostName::new("gpu-1"), HostName::new("gpu-2")];
        let questions = vec![question("acs", "ACS off?"), question("mtu", "MTU?"), question("job", "Job?")];
        let answers = [
            vec![
                QuestionAnswer::Found("2 of 9 bridges redirect".into()),
                QuestionAnswer::Clear("4096".into()),
                QuestionAnswer::NotApplicable,
            ],
            vec![
                QuestionAnswer::Unknown("fact `acs` is unknown: no root".into()),
                QuestionAnswer::Clear("4096".into()),
                QuestionAnswer::NotApplicable,
            ],
        ];
        let answers: Vec<_> = hosts.iter().cloned().zip(answers).collect();
        SlowDiagnosis {
            hosts: hosts.to_vec(),
            simulated: Vec::new(),
            unreachable: Vec::new(),
            elsewhere: vec!["train-3 on node gpu-9".into()],
            path: group_answers(questions, &answers),
            causes: vec![SlowCause {
                question: "acs".to_owned(),
                likelihood: CauseLikelihood::Likely,
                cause: "it is slow then".to_owned(),
                hosts: vec![hosts[0].clone()],
                repair: CauseRepair::Declared(vec!["pcie-acs".to_owned()]),
                otherwise: Some("look at the board".to_owned()),
            }],
            measured: None,
        }
    }

    #[test]
    fn measurements_follow_the_causes_and_decide_about_the_exit_code() {
        let mut diagnosis = sample_diagnosis();
        assert_eq!(diagnosis.exit_code(), ExitCode::Changes);
        diagnosis.measured = Some(crate::view::sample::acceptance_report());
        assert_eq!(diagnosis.exit_code(), ExitCode::VerifyFailed);
        let text = render(&diagnosis, false);
        let repair = "repair: recipe pcie-acs is declared: `forge plan --on gpu-1` shows whether it would change something; if not: \
             look at the board\n\nucx-bandwidth  ";
        assert!(text.contains(repair) && text.contains("\n  bad: host `a`, its adapter or its cable\n"), "{text}");
    }

    #[test]
    fn evidence_and_causes_are_shown_and_questions_without_answers_are_not() {
        assert_eq!(
            render(&sample_diagnosis(), false),
            "found    ACS off?\n           gpu-1: 2 of 9 bridges redirect\n           gpu-2: fact `acs` is unknown: no root\n\
             excluded MTU? 4096\n\
             not asked pod train-3 on node gpu-9: no host of the inventory runs it\n\n\
             most likely cause: acs on gpu-1 (likely): it is slow then\n    \
             repair: recipe pcie-acs is declared: `forge plan --on gpu-1` shows whether it would change something; if not: \
             look at the board\n"
        );
    }

    #[test]
    fn diagnosis_without_hosts_is_no_all_clear() {
        let nothing = SlowDiagnosis { hosts: Vec::new(), path: Vec::new(), causes: Vec::new(), ..sample_diagnosis() };
        let text = render(&nothing, false);
        assert!(text.ends_with("\nno host answered: nothing was found or excluded\n"), "{text}");
    }

    #[test]
    fn diagnosis_without_a_cause_names_what_was_not_answered() {
        let mut diagnosis = sample_diagnosis();
        diagnosis.causes.clear();
        let text = render(&diagnosis, false);
        assert!(
            text.ends_with(
                "no cause found on 2 hosts; 1 question could not be answered\n\
                 measure the network: `forge test` names a slow host, adapter or cable\n"
            ),
            "{text}"
        );
    }
}
