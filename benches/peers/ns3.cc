// SPDX-License-Identifier: GPL-2.0-only OR MIT
// ns-3 on the benchmark's path: server - gateway - terminal - client, one download.
//
//   ns3-download --cc=TcpBbr --size=100000000 --loss=0
//     --cc    name of an ns-3 congestion control: TcpBbr, TcpCubic, TcpHybla, TcpLinuxReno ...
//     --size  payload of the download, bytes
//     --loss  Bernoulli loss of data packets on the satellite link, a share: 0, 0.001, 0.01
//
// Prints one line of JSON: segments delivered to the client, seconds simulated, seconds of wall clock.
// Notes on ns-3.37:
// - The receiver's buffer is larger than the sender's 60 MB. With equal ones cubic and Hybla end in an assertion of
//   the rate sampler when the window closes.
// - Device flow control is off: with it a full queue stops the sender instead of dropping, and the path has no loss.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <chrono>
#include <cstdio>

using namespace ns3;

namespace {

constexpr uint32_t kSegmentBytes = 1448;    // 1500-byte IP packet less 20 IP, 20 TCP and 12 timestamp bytes
constexpr uint32_t kSendBuffer = 60000000;  // the 60 MB of the published hosts
constexpr uint32_t kReceiveBuffer = 120000000;

// One hop: both directions alike, a drop-tail queue in packets, no flow control between queue and device.
NetDeviceContainer
Hop(Ptr<Node> a, Ptr<Node> b, const char* rate, const char* delay, uint32_t queuePackets)
{
    PointToPointHelper hop;
    hop.DisableFlowControl();
    hop.SetDeviceAttribute("DataRate", StringValue(rate));
    hop.SetChannelAttribute("Delay", StringValue(delay));
    hop.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(PACKETS, queuePackets)));
    return hop.Install(a, b);
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string cc = "TcpBbr";
    uint64_t size = 100000000;
    double loss = 0;
    CommandLine cmd;
    cmd.AddValue("cc", "congestion control", cc);
    cmd.AddValue("size", "bytes of the download", size);
    cmd.AddValue("loss", "share of data packets lost on the satellite link", loss);
    cmd.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + cc)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegmentBytes));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(kSendBuffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(kReceiveBuffer));

    NodeContainer nodes;
    nodes.Create(4);
    // 36 MB are 24,000 packets of 1500 bytes. One way 5 + 294 + 1 = 300 ms.
    const NetDeviceContainer ethernet = Hop(nodes.Get(0), nodes.Get(1), "1Gbps", "5ms", 100000);
    const NetDeviceContainer satellite = Hop(nodes.Get(1), nodes.Get(2), "144Mbps", "294ms", 24000);
    const NetDeviceContainer home = Hop(nodes.Get(2), nodes.Get(3), "1Gbps", "1ms", 100000);

    if (loss > 0)
    {
        Ptr<RateErrorModel> lossy = CreateObject<RateErrorModel>();
        lossy->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        lossy->SetRate(loss);
        satellite.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(lossy));
    }

    InternetStackHelper internet;
    internet.Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.1.0", "255.255.255.0");
    addresses.Assign(ethernet);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    addresses.Assign(satellite);
    addresses.SetBase("10.0.3.0", "255.255.255.0");
    const Ipv4InterfaceContainer atHome = addresses.Assign(home);
    // Without device flow control ns-3 installs no queue discipline: the devices' queues are the queues of the path.
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const uint16_t port = 5201;
    PacketSinkHelper sinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    ApplicationContainer sinks = sinkHelper.Install(nodes.Get(3));
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(atHome.GetAddress(1), port));
    source.SetAttribute("MaxBytes", UintegerValue(size));
    source.SetAttribute("SendSize", UintegerValue(kSegmentBytes * 10));
    ApplicationContainer sources = source.Install(nodes.Get(0));
    sinks.Start(Seconds(0));
    sources.Start(Seconds(0));

    // The download is over when the client has it all.
    Ptr<PacketSink> sink = DynamicCast<PacketSink>(sinks.Get(0));
    sink->TraceConnectWithoutContext(
        "Rx",
        Callback<void, Ptr<const Packet>, const Address&>([&](Ptr<const Packet>, const Address&) {
            if (sink->GetTotalRx() >= size)
            {
                Simulator::Stop();
            }
        }));
    Simulator::Stop(Seconds(20000));

    const auto started = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
    const uint64_t received = sink->GetTotalRx();
    std::printf("{\"segments\": %llu, \"simulated_s\": %.3f, \"wall_s\": %.3f}\n",
                static_cast<unsigned long long>((received + kSegmentBytes - 1) / kSegmentBytes),
                Simulator::Now().GetSeconds(),
                wall.count());
    Simulator::Destroy();
    return received < size;
}
