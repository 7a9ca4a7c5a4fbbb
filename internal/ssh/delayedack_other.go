//go:build !linux

package ssh

import "net"

// acknowledge does nothing where the kernel can't be told when to acknowledge.
func acknowledge(net.Conn) {}
