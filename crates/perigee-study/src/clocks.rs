//! Clocks that TDMA channels of a scenario share.

use perigee_link::RateSpec;
use perigee_text::{clip, StrictError};
use perigee_units::Time;

use crate::links::Built;
use crate::read::LinkDraft;

/// Checks that channels with the same clock have super-frames of the same length.
pub(crate) fn check_clocks(links: &[LinkDraft], built: &[[Built; 2]]) -> Result<(), StrictError> {
    let mut clocks: Vec<(&str, Time)> = Vec::new();
    for (link, directions) in links.iter().zip(built) {
        for direction in directions {
            let RateSpec::Tdma(tdma) = &direction.spec.rate else { continue };
            let Some(clock) = tdma.clock.as_deref() else { continue };
            match clocks.iter().find(|(known, _)| *known == clock) {
                Some((_, superframe)) if *superframe != tdma.superframe => {
                    let message = format!(
                        "the clock `{}` of `links.{}` has super-frames of {} and of {superframe}",
                        clip(clock),
                        link.name,
                        tdma.superframe
                    );
                    let fix = "give the channels the same `superframe`, or a `clock` each";
                    return Err(StrictError::new(&link.table.origin, message, fix));
                }
                Some(_) => {}
                None => clocks.push((clock, tdma.superframe)),
            }
        }
    }
    Ok(())
}
