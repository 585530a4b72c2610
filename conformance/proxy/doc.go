// Package proxy is a network between clients and their servers that can be disturbed: cut, slow,
// without replies, or without a memory of its connections. It works with every service that is
// reached by TCP.
//
// A [Network] is what the suite asks of a link (conformance.Link, OneWayLink and ForgetfulLink), so a
// harness needs a few lines for its hook Linked. Where the client library takes a function that
// dials, give it [Network.Dial]:
//
//	h.Linked = func(t conformance.T) (locker.Locker, conformance.Link) {
//		network := proxy.Start(t)
//		return open(t, mybackend.WithDialer(network.Dial)), network
//	}
//
// Where it takes only an address, give it the address that [Network.Forward] returns.
//
// Each connection is a real one on both sides, and this process relays between them. Proxies that
// only open and close connections are not enough for the suite, for three reasons:
//
//   - a delayed request must stay delayed when the network works again, because that is how a late
//     request meets its own clean-up;
//   - a cut must leave both ends believing in their connection;
//   - a single reply must get lost although its request was executed.
//
// The kernel of this machine acknowledges what is sent to the proxy. So the proxy can't show what a
// service does about a client that acknowledges nothing, nor what the kernel of a client does whose
// packets nobody acknowledges: it would give up a connection that was forgotten, after some time.
package proxy
