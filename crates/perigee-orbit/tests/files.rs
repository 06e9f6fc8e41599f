//! A satellite in each format, and errors of files with their lines.

use perigee_orbit::{read_elements, Elements, Satellite};
use proptest::prelude::*;

const TLE: &str = "\
0 ISS (ZARYA)
1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
";

const JSON: &str = r#"[{
    "OBJECT_NAME": "ISS (ZARYA)", "OBJECT_ID": "1998-067A", "EPOCH": "2020-07-12T21:16:01.000416", "MEAN_MOTION": "15.49507896",
    "ECCENTRICITY": 0.0001413, "INCLINATION": 51.6461, "RA_OF_ASC_NODE": 221.2784, "ARG_OF_PERICENTER": 89.1723,
    "MEAN_ANOMALY": 280.4612, "NORAD_CAT_ID": 25544, "BSTAR": -0.000031515
}]"#;

const KVN: &str = "\
CCSDS_OMM_VERS = 2.0
COMMENT GENERATED FOR A TEST
OBJECT_NAME = ISS (ZARYA)
OBJECT_ID = 1998-067A
MEAN_ELEMENT_THEORY = SGP4
EPOCH = 2020-07-12T21:16:01.000416
MEAN_MOTION = 15.49507896 [rev/day]
ECCENTRICITY = .0001413
INCLINATION = 51.6461 [deg]
RA_OF_ASC_NODE = 221.2784
ARG_OF_PERICENTER = 89.1723
MEAN_ANOMALY = 280.4612
BSTAR = -.31515E-4
";

fn xml() -> String {
    let mut text =
        String::from("<?xml version=\"1.0\"?>\n<ndm><omm id=\"CCSDS_OMM_VERS\" version=\"2.0\"><body><segment>\n");
    for line in KVN.lines().skip(2) {
        let (key, value) = line.split_once(" = ").expect("a key and a value");
        let value = value.split(" [").next().unwrap_or_default();
        text.extend(["<", key, ">", value, "</", key, ">\n"]);
    }
    text + "</segment></body></omm></ndm>\n"
}

fn one(text: &str) -> Elements {
    let mut read = read_elements(text.as_bytes()).expect("elements").satellites;
    assert_eq!(read.len(), 1, "{text}");
    read.remove(0)
}

#[test]
fn a_satellite_is_the_same_in_each_format() {
    let json = one(JSON);
    assert_eq!((json.name.as_str(), json.launched), ("ISS (ZARYA)", Some(1_998_067)));
    assert_eq!(one(KVN), json);
    assert_eq!(one(&xml()), json);
    // A TLE gives its epoch to 1e-8 days.
    let tle = one(TLE);
    let apart = tle.epoch.seconds_since(json.epoch);
    assert!(apart.abs() < 1e-3, "{apart} s");
    assert_eq!(Elements { epoch: json.epoch, bstar: json.bstar, ..tle.clone() }, json);
    assert!((tle.bstar - json.bstar).abs() < 1e-12);
    let two = KVN.replace("ISS (ZARYA)", "OTHER");
    assert_eq!(read_elements(format!("{KVN}{two}").as_bytes()).unwrap().satellites.len(), 2);
    let bare = TLE.lines().skip(1).collect::<Vec<_>>().join("\r\n");
    assert_eq!(one(&bare).name, "25544");
}

#[test]
fn an_error_of_a_file_names_its_line() {
    let error = |text: &str| read_elements(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error(""), "line 1: the file has no elements; check that this is the file you meant");
    assert!(error("a,b\n1,2\n").starts_with("line 1: neither two-line elements nor"));
    assert_eq!(
        error("No GP data found\n"),
        "line 1: the server found no data: it answered `No GP data found`; ask for another group, name or number"
    );
    assert!(error("Invalid query: GRP\n").contains("it says `Invalid query: GRP`"));
    assert_eq!(
        error(&TLE.replace("51.6461", "51.6462")),
        "line 3: the checksum is 9, and the line has 8; take the line as it was published"
    );
    let short = TLE.replace(" 0  9992", " 0 99");
    assert_eq!(
        error(&short),
        "line 2: 66 characters, where a line of two-line elements has 69; take the lines as they were published"
    );
    let first: String = TLE.lines().take(2).collect::<Vec<_>>().join("\n");
    assert_eq!(error(&first), "line 2: line 1 of a satellite has no line 2; put its line 2 after it");
    assert!(error(&format!("{TLE}NEXT\n")).starts_with("line 4: `NEXT` has no elements"));
    assert!(error(&format!("{TLE}{TLE}")).starts_with("line 5: ISS (ZARYA) is there twice, first in line 2"));
    assert!(error(&KVN.replace("51.6461", "251.6")).starts_with("line 9: `INCLINATION` = 251.6 is out of range"));
    assert!(error(&KVN.replace("MEAN_ANOMALY = 280.4612\n", "")).starts_with("line 1: `MEAN_ANOMALY` is missing"));
    assert!(error(&KVN.replace("2020-07-12", "1820-07-12")).starts_with("line 6: `EPOCH` ="));
    assert!(error(&KVN.replace("15.4950", "x")).starts_with("line 7: `MEAN_MOTION` = `x7896` is not a number"));
    assert!(error(&JSON.replace("280.4612", "\"nan\"")).starts_with("line 1: `MEAN_ANOMALY` = NaN is out of range"));
    assert!(error(&JSON.replace(']', "")).starts_with("line 5: not JSON"));
    assert!(error("[1]").starts_with("line 1: not an object"));
    assert!(error("<ndm></ndm>").starts_with("line 1: the file has no elements"));
    let binary = read_elements(b"1 2\n\xff").unwrap_err();
    assert_eq!((binary.line, binary.message.as_str()), (2, "not a text file"));
}

/// Satellites that have no name yet, with these numbers: lines of two-line elements without names.
fn unnamed(numbers: &[&str]) -> String {
    let of = |number: &&str| {
        let lines = TLE.replace("25544", number).replace("20194.88612269", "26330.50000000");
        let lines = lines.lines().map(|line| match line.chars().next() {
            Some('0') => "TBA".to_owned(),
            _ => line[..68].to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n") + "\n"
    };
    numbers.iter().map(of).collect()
}

#[test]
fn satellites_with_one_name_are_told_apart_by_their_numbers_and_lines_need_no_checksum() {
    let read = read_elements(unnamed(&["60000", "60001", "A0002"]).as_bytes()).expect("elements");
    let names: Vec<_> = read.satellites.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["TBA (60000)", "TBA (60001)", "TBA (100002)"]);
    assert_eq!(read.notes, ["6 lines of the elements have no checksum; they were read as they stand"]);
    let twice = read_elements(unnamed(&["60000", "60000"]).as_bytes()).unwrap_err().to_string();
    assert!(twice.contains("TBA is there twice, first in line 2"), "{twice}");
}

#[test]
fn two_line_elements_since_july_2026_lack_what_was_catalogued_since() {
    let said = |text: &str| read_elements(text.as_bytes()).expect("elements").notes.join("; ");
    assert!(said(&unnamed(&["60000"])).contains("catalogued since 2026-07-11"));
    assert!(!said(&unnamed(&["A0000"])).contains("catalogued"));
    assert_eq!(said(TLE), "");
    assert_eq!(said(KVN), "");
}

#[test]
fn a_message_as_csv_is_read_with_and_without_quotes() {
    let json = one(JSON);
    let keys = "OBJECT_NAME,OBJECT_ID,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,ARG_OF_PERICENTER,\
        MEAN_ANOMALY,NORAD_CAT_ID,BSTAR";
    let values =
        "ISS (ZARYA),1998-067A,2020-07-12T21:16:01.000416,15.49507896,0.0001413,51.6461,221.2784,89.1723,280.4612,\
        25544,-0.000031515";
    assert_eq!(one(&format!("{keys}\r\n{values}\r\n")), json);
    let quoted = |line: &str| format!("\"{}\"", line.replace(',', "\",\""));
    assert_eq!(one(&format!("{}\n{}\n", quoted(keys), quoted(values))), json);
    let unnamed = values.replace("ISS (ZARYA)", "");
    assert_eq!(one(&format!("{keys}\n{unnamed}\n")).name, "25544");
    let cut = read_elements(format!("{keys}\n{values}\n{}\n", &values[..30]).as_bytes()).unwrap_err().to_string();
    assert!(cut.starts_with("line 3: 3 values, where the first line has 11 names"), "{cut}");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(cut in 0usize..700, with in "[0-9A-Z<>{}=\".\n -]{0,12}", which in 0usize..4) {
        let text = [TLE.to_owned(), JSON.to_owned(), KVN.to_owned(), xml()][which].clone();
        let cut = cut.min(text.len());
        let _ = read_elements(format!("{}{with}{}", &text[..cut], &text[cut..]).as_bytes());
        let _ = read_elements(format!("{}{with}", &text[..cut]).as_bytes());
    }

    #[test]
    fn a_satellite_never_moves_faster_or_higher_than_the_search_assumes(
        altitude in 300.0f64..2000.0, inclination in 0.0f64..180.0, anomaly in 0.0f64..360.0, eccentricity in 0.0f64..0.02,
    ) {
        let mut satellite = one(KVN);
        satellite.inclination_deg = inclination;
        satellite.anomaly_deg = anomaly;
        satellite.eccentricity = eccentricity;
        satellite.bstar = 0.0;
        satellite.revolutions_per_day = 15.5 * ((6378.0 + 440.0) / (6378.0 + altitude)).powf(1.5);
        let moved = Satellite::new(&satellite).unwrap();
        let bounds = moved.bounds();
        let mut places = 0;
        for minute in 0..100 {
            let t = satellite.epoch.plus_nanos(minute * 60_000_000_000);
            let (Some(a), Some(b)) = (moved.position(t), moved.position(t.plus_nanos(1_000_000_000))) else { continue };
            let norm = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
            let cosine = (0..3).map(|i| a[i] * b[i]).sum::<f64>() / (norm(a) * norm(b));
            let rate = cosine.min(1.0).acos();
            places += 1;
            prop_assert!(rate < bounds.sweep_rad_s, "{rate} rad/s");
            prop_assert!((a[2] / norm(a)).asin().abs() < bounds.northernmost_rad, "{a:?}");
        }
        // The propagator returns no position above the bound.
        prop_assert!(places == 100 || altitude * (1.0 - 0.04) < 420.0, "{places} of 100");
    }
}
