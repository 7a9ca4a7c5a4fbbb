// Package firstboot creates what a guest reads when it boots for the first time: the NoCloud medium of cloud-init, an
// ISO 9660 image with the label cidata, and the configuration of Ignition.
//
// Everything here is a function of its input: equal input gives equal bytes, so that a digest shows whether a medium is
// still up to date. Validation requires neither a host nor the instance id, so a plan can validate.
//
// It imports nothing of the project and does no I/O: a configuration may hold passwords and keys, and must never be in
// a file on the operator's disk. That is why the image is written here: the ISO 9660 libraries for Go stage the content
// in a temporary directory and stamp the image with the current time. Errors name a field, a line and a reason, and
// never quote the content.
package firstboot
