//go:build !linux

package ssh

import "net"

// acknowledge does nothing on systems whose kernel can't be told when to acknowledge.
func acknowledge(net.Conn) {}
