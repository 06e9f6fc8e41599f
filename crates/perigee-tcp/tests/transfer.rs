//! Whole transfers between two endpoints.

mod common;

use common::{Path, Transfer};
use perigee_tcp::Config;
use perigee_units::Time;

#[test]
fn a_transfer_without_loss_arrives_whole_and_closes() {
    let mut transfer = Transfer::new(&Path::default(), &Config::default(), "reno");
    transfer.sender.write(1_000_000);
    transfer.sender.close();
    transfer.open();
    transfer.run(Time::from_secs(60), |t| t.sender.is_closed());
    assert!(transfer.sender.is_closed(), "{:?}", transfer.sender.info());
    assert_eq!(transfer.receiver.received(), 1_000_000);
    println!("{} {:?}", transfer.now, transfer.sender.info());
}
