package virtualmachine_test

import (
	"crypto/des"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

const (
	// firstDisplay is the port of VNC's display 0.
	firstDisplay = 5900
	// screenTimeout bounds what a client says to a screen's server.
	screenTimeout = time.Minute
)

// screenAt is where the VM's screen is shown, as libvirt tells clients.
func screenAt(t *testing.T, l *lab.Lab, host, name string) (scheme, address string, port int) {
	t.Helper()
	at, err := url.Parse(strings.TrimSpace(l.Virsh(t, host, "domdisplay", name)))
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(at.Port())
	if err != nil {
		t.Fatalf("the screen is at %s: %v", at, err)
	}
	if at.Scheme == "vnc" {
		port += firstDisplay
	}
	return at.Scheme, at.Hostname(), port
}

// dialScreen connects to the screen's server from the computer of the lab, which is another host than those.
func dialScreen(t *testing.T, address string, port int) (net.Conn, error) {
	t.Helper()
	dialer := net.Dialer{Timeout: screenTimeout}
	conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.SetDeadline(time.Now().Add(screenTimeout))
}

// readScreen reads that many bytes.
func readScreen(t *testing.T, conn net.Conn, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	if _, err := io.ReadFull(conn, data); err != nil {
		t.Fatal(err)
	}
	return data
}

func writeScreen(t *testing.T, conn net.Conn, data []byte) {
	t.Helper()
	if _, err := conn.Write(data); err != nil {
		t.Fatal(err)
	}
}

// vncAccepts logs in to a VNC server as RFC 6143 has it, and reports whether the server accepts the password. A server
// that requires none fails the test.
func vncAccepts(t *testing.T, address string, port int, password string) bool {
	t.Helper()
	conn, err := dialScreen(t, address, port)
	if err != nil {
		t.Fatal(err)
	}
	const version, vncAuthentication = "RFB 003.008\n", 2
	if greeting := string(readScreen(t, conn, len(version))); greeting != version {
		t.Fatalf("the server greets with %q", greeting)
	}
	writeScreen(t, conn, []byte(version))
	types := readScreen(t, conn, int(readScreen(t, conn, 1)[0]))
	if !slices.Equal(types, []byte{vncAuthentication}) {
		t.Fatalf("the server offers the security types %v, want only that with a password", types)
	}
	writeScreen(t, conn, types)
	// VNC's DES has the bits of each byte of the key in reverse order.
	key := make([]byte, des.BlockSize)
	copy(key, password)
	for i := range key {
		key[i] = bits.Reverse8(key[i])
	}
	block, err := des.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	challenge := readScreen(t, conn, 2*des.BlockSize)
	response := make([]byte, len(challenge))
	block.Encrypt(response, challenge)
	block.Encrypt(response[des.BlockSize:], challenge[des.BlockSize:])
	writeScreen(t, conn, response)
	return binary.BigEndian.Uint32(readScreen(t, conn, 4)) == 0
}

// showsTo expects which of the passwords opens the screen.
func showsTo(t *testing.T, accepts func(password string) bool, passwords map[string]bool) {
	t.Helper()
	for password, want := range passwords {
		if got := accepts(password); got != want {
			t.Errorf("the server accepts the password %q: %t, want %t", password, got, want)
		}
	}
}

// withPassword is a screen with a password.
func withPassword(password string, version int) hcl {
	return hcl{"graphics_access": fmt.Sprintf(`{ password_wo = %q, password_wo_version = "%d" }`, password, version)}
}

// TestAccGraphics_vnc: a client on another host sees the screen at the declared address with the password, after a
// change of the running VM only with the new one, and doesn't reach a screen at the host's own loopback address.
func TestAccGraphics_vnc(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	tf := acctest.NewCLI(t)
	process := &started{l: l, host: host, name: name}
	at := func(address string) hcl {
		return tinyVM(name).with(hcl{
			"host": quote(host), "update_policy": quote("Restart"),
			"devices": fmt.Sprintf(`{ graphics = { listen = "address", address = %q } }`, address),
		})
	}
	apply := func(config hcl) {
		t.Helper()
		tf.Config(t, acctest.OneHost(l)+config.String())
		tf.Run(t, "apply")
		noChanges(t, tf)
	}
	outside := l.Host(host).Address
	accepts := func(password string) bool {
		scheme, address, port := screenAt(t, l, host, name)
		if scheme != "vnc" || address != outside {
			t.Fatalf("the screen is at %s on %s, want VNC on %s", scheme, address, outside)
		}
		return vncAccepts(t, address, port, password)
	}
	apply(at(outside).with(withPassword("erstes", 1)))
	showsTo(t, accepts, map[string]bool{"erstes": true, "zweites": false, "": false})
	if err := process.same(t)(nil); err != nil {
		t.Fatal(err)
	}
	apply(at(outside).with(withPassword("zweites", 2)))
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	showsTo(t, accepts, map[string]bool{"erstes": false, "zweites": true, "": false})

	apply(at("127.0.0.1").with(withPassword("zweites", 2)))
	if err := process.restarted(t)(nil); err != nil {
		t.Error(err)
	}
	_, _, port := screenAt(t, l, host, name)
	greeting := l.Run(t, host, "bash", "-c", `exec 3<>"/dev/tcp/127.0.0.1/$1"; head -c 12 <&3`, "greet",
		strconv.Itoa(port))
	if err := contains(greeting, "RFB 003.008"); err != nil {
		t.Error(err)
	}
	if _, err := dialScreen(t, outside, port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a client on another host gets %v, want that it can't connect", err)
	}
	destroyAndCheck(t, l, tf, name)
}

// What a client and a server say first, see SPICE's protocol: the header of a message, and what follows it.
type (
	spiceHeader struct {
		Magic        [4]byte
		Major, Minor uint32
		Size         uint32
	}
	spiceLink struct {
		Connection                                 uint32
		Channel, ChannelID                         uint8
		CommonCaps, ChannelCaps, CapsBeginAtOffset uint32
	}
	spiceReply struct {
		Error                                      uint32
		Key                                        [162]byte
		CommonCaps, ChannelCaps, CapsBeginAtOffset uint32
	}
)

// spiceMagic begins each of these messages.
var spiceMagic = [4]byte{'R', 'E', 'D', 'Q'}

// spiceAccepts logs in to the main channel of a SPICE server, and reports whether the server accepts the password.
func spiceAccepts(t *testing.T, address string, port int, password string) bool {
	t.Helper()
	conn, err := dialScreen(t, address, port)
	if err != nil {
		t.Fatal(err)
	}
	const mainChannel, denied = 1, 7
	link := spiceLink{Channel: mainChannel, CapsBeginAtOffset: uint32(binary.Size(spiceLink{}))}
	for _, message := range []any{spiceHeader{spiceMagic, 2, 2, link.CapsBeginAtOffset}, link} {
		if err := binary.Write(conn, binary.LittleEndian, message); err != nil {
			t.Fatal(err)
		}
	}
	read := func(message any) {
		t.Helper()
		if err := binary.Read(conn, binary.LittleEndian, message); err != nil {
			t.Fatal(err)
		}
	}
	var header spiceHeader
	var reply spiceReply
	read(&header)
	if header.Magic != spiceMagic || int(header.Size) < binary.Size(reply) {
		t.Fatalf("the server answers with %+v", header)
	}
	read(&reply)
	readScreen(t, conn, int(header.Size)-binary.Size(reply))
	parsed, err := x509.ParsePKIXPublicKey(reply.Key[:])
	if err != nil || reply.Error != 0 {
		t.Fatalf("the server's key: %v, error %d", err, reply.Error)
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		t.Fatalf("the server's key is a %T", parsed)
	}
	ticket, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, key, append([]byte(password), 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	writeScreen(t, conn, ticket)
	var result uint32
	read(&result)
	if result != 0 && result != denied {
		t.Fatalf("the server answers the password with error %d", result)
	}
	return result == 0
}

// TestAccGraphics_spice: a VM with a SPICE screen and what hangs on it runs, lets a client in with the password, after
// a change of the running VM only with the new one, and is imported as it is.
func TestAccGraphics_spice(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	tf := acctest.NewCLI(t)
	process := &started{l: l, host: host, name: name}
	outside := l.Host(host).Address
	config := tinyVM(name).with(hcl{"host": quote(host), "devices": fmt.Sprintf(`{
    graphics  = { type = "spice", listen = "address", address = %q }
    video     = { model = "qxl" }
    smartcard = { mode = "passthrough" }
    channels  = { agent = { type = "spicevmc", name = "com.redhat.spice.0" } }
    redirdevs = { usb = { type = "spicevmc" } }
  }`, outside)})
	accepts := func(password string) bool {
		scheme, address, port := screenAt(t, l, host, name)
		if scheme != "spice" || address != outside {
			t.Fatalf("the screen is at %s on %s, want SPICE on %s", scheme, address, outside)
		}
		return spiceAccepts(t, address, port, password)
	}
	for version, passwords := range []map[string]bool{
		{"erstes": true, "zweites": false}, {"erstes": false, "zweites": true},
	} {
		password := []string{"erstes", "zweites"}[version]
		tf.Config(t, acctest.OneHost(l)+config.with(withPassword(password, version)).String())
		tf.Run(t, "apply")
		noChanges(t, tf)
		if err := process.same(t)(nil); err != nil {
			t.Error(err)
		}
		showsTo(t, accepts, passwords)
	}
	if err := look(t, l, host, name, "<smartcard mode='passthrough' type='spicevmc'>",
		"<redirdev bus='usb' type='spicevmc'>", "<channel type='spicevmc'>", "<model type='qxl'")(nil); err != nil {
		t.Error(err)
	}
	imported := acctest.NewCLI(t)
	imported.Config(t, acctest.OneHost(l)+config.with(hcl{"host": "", "run_strategy": quote("Always")}).String())
	imported.Run(t, "import", address, name)
	noChanges(t, imported)
	if err := process.same(t)(nil); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}
