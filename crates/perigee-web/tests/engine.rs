//! Requests of a page, natively: the same as in a browser, without its memory.

use perigee_study::Overrides;
use perigee_units::Time;
use perigee_web::{Asked, Engine, Kind, Limits, Live};

const STUDY: &str = r#"
name = "tab"
time_limit = "1 min"
nodes = ["server", "home"]
[measure]
series = "500 ms"
[[links]]
name = "satellite"
between = ["server", "home"]
down = { rate = "20 Mbit/s", delay = "300 ms", queue = "1 MB" }
up = { rate = "5 Mbit/s", delay = "300 ms" }
[[flows]]
name = "download"
from = "server"
to = "home"
duration = "20 s"
[vary]
"flow.cc" = ["cubic", "bbr"]
"links.satellite.down.loss" = ["0 %", "1 %"]
"#;

fn asked(text: &str) -> Asked {
    Asked { text: text.to_owned(), file: "tab.toml".to_owned(), overrides: Overrides::default() }
}

#[test]
fn an_error_has_the_place_of_what_it_names() {
    let errors = Engine::default().check(&asked(&STUDY.replace("duration", "  duraton")));
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((error.line, error.column), (16, 3), "{error:?}");
    assert!(error.message.contains("duraton") && error.fix.contains("duration"), "{error:?}");
    assert_eq!(Engine::default().check(&asked(STUDY)), []);
}

#[test]
fn an_error_of_an_override_has_no_line() {
    let overrides = Overrides { set: vec![("flow.cc".into(), "cubi".into())], ..Overrides::default() };
    let text = STUDY.replace("\"flow.cc\" = [\"cubic\", \"bbr\"]\n", "");
    let errors = Engine::default().check(&Asked { overrides, ..asked(&text) });
    assert_eq!((errors[0].line, errors[0].column), (0, 0));
    assert!(errors[0].message.starts_with("--set flow.cc=cubi: "), "{errors:?}");
}

#[test]
fn a_run_is_labelled_by_what_varies() {
    let described = Engine::default().describe(&asked(STUDY), 0, 64).expect("the study is right");
    let label = |run: usize| described["runs"][run]["label"].clone();
    assert_eq!((label(0), label(3)), ("cc=cubic, loss=0 %".into(), "cc=bbr, loss=1 %".into()));
    assert_eq!(described["links"][0]["mean_mbps"], 20.0);
    assert_eq!(described["flows"][0]["path"][0], "satellite.down");
}

#[test]
fn a_delay_that_changes_is_described_over_time_and_one_that_stays_is_not() {
    let moved = r#"timeline = ["time_s, delay_ms", "0, 12", "15, 32"]"#;
    let text = STUDY.replace(r#"delay = "300 ms", queue = "1 MB""#, &format!(r#"queue = "1 MB", {moved}"#));
    let described = Engine::default().describe(&asked(&text), 0, 64).expect("the study is right");
    let [down, up] = [0, 1].map(|link| &described["links"][link]["delays"]);
    let at = |seconds: f64| &down["ms"][(seconds / down["every_s"].as_f64().expect("a number")) as usize];
    assert_eq!((at(1.0), at(14.0), at(16.0)), (&12.0.into(), &12.0.into(), &32.0.into()));
    assert!(up.is_null(), "{up}");
}

#[test]
fn a_page_names_as_many_runs_as_it_shows() {
    let text = include_str!("../../../studies/atlas/study.toml");
    let described = Engine::default().describe(&asked(text), 78_749, 3).expect("the study is right");
    assert_eq!((&described["count"], described["runs"].as_array().map(Vec::len)), (&78_750.into(), Some(3)));
    assert_eq!(described["flows"][0]["cc"], "reno", "the last run of all");
}

#[test]
fn a_run_shows_its_curves_and_ends_with_its_tables() {
    let mut engine = Engine::default();
    let run = engine.start(&asked(STUDY), 0).expect("it begins");
    let progress = engine.advance(run, Time::from_secs(3), None).expect("it goes on");
    assert_eq!((progress.t_s, progress.is_done), (3.0, false));
    let Live { flows, links } = engine.live(run, Time::from_secs(1)).expect("it goes on");
    let instants = |cells: &[f64], width: usize| cells.chunks(width).map(|row| row[0]).collect::<Vec<_>>();
    assert_eq!(instants(&flows[0].cells, Live::OF_FLOW.len()), [1.5, 2.0, 2.5, 3.0]);
    assert_eq!(instants(&links[1].cells, Live::OF_LINK.len()), [1.5, 2.0, 2.5, 3.0]);
    assert_eq!(&*links[1].name, "satellite.up");
    let tables = engine.finish(run).expect("it succeeds");
    assert!(tables.contains(&("flows", 1)), "{tables:?}");
    assert!(engine.live(run, Time::ZERO).is_err(), "a finished run has tables instead");
    engine.free(run);
    assert_eq!(engine.finish(run).expect_err("it was freed").kind, Kind::Request);
}

#[test]
fn a_stream_of_arrow_is_two_messages_and_an_end() {
    let mut engine = Engine::default();
    let run = engine.start(&asked(STUDY), 0).expect("it begins");
    engine.finish(run).expect("it succeeds");
    let stream = engine.arrow(run, "series").expect("a study has series");
    let word = |at: usize| u32::from_le_bytes(stream[at..at + 4].try_into().expect("four bytes"));
    let metadata = |at: usize| word(at + 4) as usize;
    assert_eq!((word(0), metadata(0) % 8), (u32::MAX, 0));
    let batch = 8 + metadata(0);
    assert_eq!((word(batch), metadata(batch) % 8), (u32::MAX, 0));
    let columns = engine.columns(run, "series").expect("a study has series");
    let bytes = |buffer: &[u8]| buffer.len().next_multiple_of(8);
    let body: usize = columns
        .iter()
        .map(|(_, _, buffers)| {
            let optional = [&buffers.validity, &buffers.offsets].into_iter().flatten();
            bytes(&buffers.data) + optional.map(|buffer| bytes(buffer)).sum::<usize>()
        })
        .sum();
    assert_eq!(stream.len(), batch + 8 + metadata(batch) + body + 8);
    assert_eq!(stream[stream.len() - 8..], [255, 255, 255, 255, 0, 0, 0, 0]);
    assert_eq!(engine.arrow(run, "none").expect_err("no such table").kind, Kind::Request);
}

#[test]
fn limits_end_a_run_with_an_error() {
    let exceeded = |limits: Limits| {
        let mut engine = Engine::default();
        engine.set_limits(limits);
        let run = engine.start(&asked(&STUDY.replace("20 Mbit/s", "200 Mbit/s")), 0).expect("it begins");
        let problem = engine.advance(run, Time::MAX, None).expect_err("it takes too much");
        assert_eq!(problem.kind, Kind::Limit);
        assert!(engine.finish(run).is_err(), "what took too much has no result");
        problem.message
    };
    let long = exceeded(Limits { simulated: Time::from_secs(10), ..Limits::default() });
    assert!(long.contains("10 s"), "{long}");
    let many = exceeded(Limits { events: 20_000, ..Limits::default() });
    assert!(many.contains("20000 events"), "{many}");
}

#[test]
fn a_file_is_found_beside_its_study_or_where_it_was_added() {
    let mut engine = Engine::default();
    let text = STUDY.replace("delay = \"300 ms\", ", "").replace(", delay = \"300 ms\"", "");
    let text = text.replace("down = {", "timeline = \"delay-doubled.csv\"\ndown = {");
    let beside = Asked { file: "rfc9743/mine.toml".to_owned(), ..asked(&text) };
    assert_eq!(engine.check(&beside), []);
    assert!(engine.check(&asked(&text))[0].message.contains("delay-doubled.csv"));
    engine.add_file("delay-doubled.csv", b"time_s,delay_ms\n0,300\n5,600\n".to_vec());
    assert_eq!(engine.check(&asked(&text)), []);
}
