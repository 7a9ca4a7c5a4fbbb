package libvirt

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// message is a message of libvirt's protocol with numbers as its payload.
func message(procedure, kind, serial uint32, payload ...uint32) []byte {
	size := headerBytes + 4*len(payload)
	var b bytes.Buffer
	for _, number := range append([]uint32{uint32(size), programRemote, 1, procedure, kind, serial, 0}, payload...) {
		_ = binary.Write(&b, binary.BigEndian, number)
	}
	return b.Bytes()
}

// bridged is a bridge with both of its ends.
func bridged(t *testing.T, prepare func(*socketBridge)) (b *socketBridge, client, daemon net.Conn) {
	t.Helper()
	near, daemon := net.Pipe()
	b, err := newSocketBridge(near)
	must(t, err)
	prepare(b)
	client, err = dialUnix(t, b.path())
	must(t, err)
	t.Cleanup(func() {
		_ = client.Close()
		_ = daemon.Close()
		b.wait()
	})
	return b, client, daemon
}

func expect(t *testing.T, from net.Conn, expected []byte) {
	t.Helper()
	got := make([]byte, len(expected))
	_, err := io.ReadFull(from, got)
	must(t, err)
	if !bytes.Equal(got, expected) {
		t.Fatalf("got %x, want %x", got, expected)
	}
}

func send(t *testing.T, to net.Conn, messages ...[]byte) {
	t.Helper()
	_, err := to.Write(bytes.Join(messages, nil))
	must(t, err)
}

func TestBridge_answersWhatIsKnown(t *testing.T) {
	t.Parallel()
	b, client, daemon := bridged(t, func(b *socketBridge) { b.answerEarly(func() { t.Error("contradicted") }) })
	question := message(procedureSupportsFeature, typeCall, 1, featureEventCallback)
	answer := message(procedureSupportsFeature, typeReply, 1, 1)
	send(t, client, question)
	expect(t, daemon, question)
	expect(t, client, answer)

	// Others wait for the daemon, whose answer to the first one is dropped.
	other, reply := message(procedureSupportsFeature, typeCall, 2, 13), message(procedureSupportsFeature, typeReply, 2, 0)
	send(t, client, other)
	expect(t, daemon, other)
	send(t, daemon, answer, reply)
	expect(t, client, reply)

	// An open connection is not looked into.
	b.connected()
	send(t, client, question)
	expect(t, daemon, question)
	send(t, daemon, message(1, typeReply, 3), []byte("anything"))
	expect(t, client, message(1, typeReply, 3))
	expect(t, client, []byte("anything"))
}

func TestBridge_passesOnWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	_, client, daemon := bridged(t, func(b *socketBridge) { b.answerEarly(func() { t.Error("contradicted") }) })
	encrypted := []byte("\x00\x00\x00\x40 something that is encrypted")
	send(t, client, encrypted)
	expect(t, daemon, encrypted)
	send(t, daemon, encrypted)
	expect(t, client, encrypted)
}

func TestBridge_cutsAContradictedStream(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string][]byte{
		"not supported": message(procedureSupportsFeature, typeReply, 1, 0),
		"an error":      message(procedureSupportsFeature, typeReply, 1, 1, 2, 3, 4, 5),
	} {
		told := make(chan struct{})
		_, client, daemon := bridged(t, func(b *socketBridge) { b.answerEarly(func() { close(told) }) })
		question := message(procedureSupportsFeature, typeCall, 1, featureKeepalive)
		send(t, client, question)
		expect(t, daemon, question)
		expect(t, client, message(procedureSupportsFeature, typeReply, 1, 1))
		go func() { _, _ = daemon.Write(reply) }()
		if n, err := client.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %d bytes, %v", name, n, err)
		}
		<-told
	}
}

// TestBridge_refusesALogin: through a bridge to the network, libvirt's client never logs in. Elsewhere it may.
func TestBridge_refusesALogin(t *testing.T) {
	t.Parallel()
	list, login := message(procedureSASLInit-1, typeCall, 1), message(procedureSASLInit, typeCall, 2)
	b, client, daemon := bridged(t, (*socketBridge).refuseLogin)
	send(t, client, list)
	expect(t, daemon, list)
	send(t, client, login)
	for _, end := range []net.Conn{daemon, client} {
		if rest, err := io.ReadAll(end); err != nil || len(rest) > 0 {
			t.Errorf("got %x, %v after the login", rest, err)
		}
	}
	if !b.loginRefused() {
		t.Error("it isn't known that a login was refused")
	}

	b, client, daemon = bridged(t, func(*socketBridge) {})
	send(t, client, login)
	expect(t, daemon, login)
	if b.loginRefused() {
		t.Error("a login was refused")
	}
}

// TestBridge_leavesWithoutAnAnswer: the daemon hears that the client leaves, which doesn't wait for the answer.
func TestBridge_leavesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b, client, daemon := bridged(t, func(*socketBridge) {})
	b.leave()
	last := message(procedureClose, typeCall, 9)
	send(t, client, last)
	expect(t, daemon, last)
	for _, end := range []net.Conn{daemon, client} {
		rest, err := io.ReadAll(end)
		must(t, err)
		if len(rest) > 0 {
			t.Errorf("got %x after the last message", rest)
		}
	}
}

// edited is a way to a daemon that edits the daemon's messages; nil drops one.
func edited(dial DialFunc, edit func(message []byte) []byte) DialFunc {
	return func(ctx context.Context, path string) (net.Conn, error) {
		remote, err := dial(ctx, path)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(remote, far); _ = remote.Close() }()
		go func() {
			defer func() { _ = far.Close() }()
			messages := bufio.NewReader(remote)
			for {
				size, err := messages.Peek(4)
				if err != nil {
					return
				}
				m := make([]byte, binary.BigEndian.Uint32(size))
				if _, err := io.ReadFull(messages, m); err != nil {
					return
				}
				if _, err := far.Write(edit(m)); err != nil {
					return
				}
			}
		}()
		return near, nil
	}
}

// isAnswer says whether a message of the daemon answers a call of this procedure.
func isAnswer(m []byte, procedure uint32) bool {
	return binary.BigEndian.Uint32(m[4:]) == programRemote && binary.BigEndian.Uint32(m[12:]) == procedure
}

// TestConnect_waitsForTwoAnswers: a connection opens in two round trips, one to log in and one to open it. No answer to
// the other questions is needed.
func TestConnect_waitsForTwoAnswers(t *testing.T) {
	t.Parallel()
	machine := lab.Open(t).Hosts[0]
	dial := edited(linkTo(machine).Dial, func(m []byte) []byte {
		if isAnswer(m, procedureSupportsFeature) {
			return nil
		}
		return m
	})
	h := open(t, Config{Name: machine.Name, URI: machine.URI(), Dial: dial})
	info, err := h.Info(t.Context())
	must(t, err)
	if info.UUID != machine.HostUUID {
		t.Errorf("got host %s, want %s", info.UUID, machine.HostUUID)
	}
}

// TestConnect_believesTheDaemon: early answers that the daemon contradicts are taken back.
func TestConnect_believesTheDaemon(t *testing.T) {
	t.Parallel()
	machine := lab.Open(t).Hosts[0]
	dial := edited(linkTo(machine).Dial, func(m []byte) []byte {
		if isAnswer(m, procedureSupportsFeature) {
			binary.BigEndian.PutUint32(m[headerBytes:], 0)
		}
		return m
	})
	h := open(t, Config{Name: machine.Name, URI: machine.URI(), Dial: dial})
	eventually(t, "a connection without early answers", func() bool {
		_, err := h.freeMemory(t.Context())
		must(t, err)
		return h.Calls()["virConnectOpen"] == 2
	})
}
