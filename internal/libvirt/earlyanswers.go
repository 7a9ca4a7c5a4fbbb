package libvirt

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// While libvirt's client opens a connection, it asks one question after the other, and waits for each answer. Every
// supported daemon gives the same answer to three of the five: it has keepalive, events and the close callback. The
// bridge answers these at once, passes the questions on all the same, and drops the daemon's answers when they come.
// At a long distance a connection is open in two round trips instead of five.
//
// If a daemon answers something else, the stream is cut and the host's connections are opened without early answers.

// The parts of libvirt's protocol that are used here, which never change (virnetprotocol.x, remote_protocol.x).
const (
	programRemote    = 0x20008086
	programKeepalive = 0x6b656570

	procedureClose           = 2
	procedureSupportsFeature = 60
	procedureSASLInit        = 67

	featureKeepalive     = 10
	featureEventCallback = 14
	featureCloseCallback = 15

	typeCall, typeReply = 0, 1

	// headerBytes is the size of a message without a payload, and featureBytes that of a question for a feature and of
	// its answer, which have a number each.
	headerBytes, featureBytes = 28, 32
)

// messageHeader is the beginning of each message.
type messageHeader struct{ Length, Program, Version, Procedure, Type, Serial, Status uint32 }

// isCall reports whether a message is a call of that procedure and has that size.
func isCall(message []byte, procedure uint32, size int) bool {
	var h messageHeader
	_, err := binary.Decode(message, binary.BigEndian, &h)
	return err == nil && len(message) == size && h == messageHeader{
		Length: uint32(size), Program: programRemote, Version: 1, Procedure: procedure, Type: typeCall, Serial: h.Serial,
	}
}

// isProgram reports whether a number is that of one of libvirt's programs: remote, qemu, lxc, admin, or keepalive.
func isProgram(number uint32) bool {
	return number&^0xf == programRemote&^0xf || number == programKeepalive
}

// earlyAnswer returns the answer of every supported daemon to a question, or nil if daemons differ.
func earlyAnswer(question []byte) []byte {
	if !isCall(question, procedureSupportsFeature, featureBytes) {
		return nil
	}
	switch binary.BigEndian.Uint32(question[headerBytes:]) {
	case featureKeepalive, featureEventCallback, featureCloseCallback:
	default:
		return nil
	}
	answer := bytes.Clone(question)
	binary.BigEndian.PutUint32(answer[16:], typeReply)
	binary.BigEndian.PutUint32(answer[headerBytes:], 1)
	return answer
}

// earlyAnswers are the answers that were given on one stream and that the daemon hasn't confirmed.
type earlyAnswers struct {
	mu      sync.Mutex
	opening bool
	given   [][]byte
	// contradicted is called if the daemon answers something else.
	contradicted func()
}

// give returns the early answer to what the client has just sent, or nil.
func (e *earlyAnswers) give(question []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.opening {
		return nil
	}
	answer := earlyAnswer(question)
	if answer != nil {
		e.given = append(e.given, answer)
	}
	return answer
}

// end ends the early answers: the connection is open, or the stream isn't understood.
func (e *earlyAnswers) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opening = false
}

// outstanding reports whether the daemon's messages have to be looked at.
func (e *earlyAnswers) outstanding() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opening || len(e.given) > 0
}

// confirm reports whether a message, of which it gets the first bytes, answers a question that was answered early, and
// whether it says the same.
func (e *earlyAnswers) confirm(message []byte) (known, same bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, answer := range e.given {
		// Program, version, procedure, type and serial number say which question it is.
		if len(message) >= 24 && bytes.Equal(message[4:24], answer[4:24]) {
			e.given = append(e.given[:i], e.given[i+1:]...)
			return true, bytes.Equal(message, answer)
		}
	}
	return false, false
}

// pass copies the daemon's messages to the client, except answers that the client has, until none are outstanding. It
// returns false if the daemon contradicts an early answer.
func (e *earlyAnswers) pass(local net.Conn, remote *bufio.Reader) bool {
	for e.outstanding() {
		begin, err := remote.Peek(8)
		size := 0
		if err == nil {
			size = int(binary.BigEndian.Uint32(begin))
		}
		if size < headerBytes || !isProgram(binary.BigEndian.Uint32(begin[4:])) {
			e.end() // The stream has ended, or is encrypted after a login with SASL.
			return true
		}
		message, err := remote.Peek(min(size, featureBytes))
		if err != nil {
			return true
		}
		known, same := e.confirm(message)
		switch {
		case known && !same:
			e.contradicted()
			return false
		case known:
			_, err = remote.Discard(size)
		default:
			_, err = io.CopyN(local, remote, int64(size))
		}
		if err != nil {
			return true
		}
	}
	return true
}
