//! Misspelt names: which of those that are known was probably meant.

/// Returns a suggestion in place of `word`: the nearest of `known`, or all of them where none is near.
///
/// ```
/// use perigee_units::suggestion;
/// assert_eq!(suggestion("rond", ["seed", "rounds"].into_iter()), "did you mean `rounds`?");
/// assert_eq!(suggestion("bbrv3", ["cubic", "bbr"].into_iter()), "did you mean `bbr`?");
/// assert_eq!(suggestion("x", ["down", "up"].into_iter()), "use one of down, up");
/// assert_eq!(suggestion("x", [].into_iter()), "remove it");
/// ```
pub fn suggestion<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.collect();
    let near = known.iter().filter(|name| is_near(word, name)).min_by_key(|name| distance(word, name));
    match near.or_else(|| known.iter().filter(|name| begin_alike(word, name)).max_by_key(|name| name.len())) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "remove it".to_owned(),
        None => format!("use one of {}", known.join(", ")),
    }
}

/// Whether `word` looks like a misspelling of `name`.
pub fn is_near(word: &str, name: &str) -> bool {
    distance(word, name) <= (name.len() / 3).clamp(1, 3)
}

/// Whether one is the beginning of the other, and long enough to say something.
fn begin_alike(word: &str, name: &str) -> bool {
    let least = 3;
    (name.len() >= least && word.starts_with(name)) || (word.len() >= least && name.starts_with(word))
}

/// Edit distance with transpositions of neighbours (optimal string alignment); long words are far from everything.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(65).collect(), b.chars().take(65).collect());
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
