package libvirt

import "encoding/binary"

// InspectedImage is what the beginning of an image says, of which no host is asked.
type InspectedImage struct {
	ImageHeader

	// CapacityBytes is what a guest sees of a qcow2 image.
	CapacityBytes uint64
}

// qcow2CapacityAt is where a qcow2 header has the size that a guest sees.
const qcow2CapacityAt = 24

// InspectImage reads the first 64 KiB of an image, or fewer where it has no more. ErrUnsupported says that the image
// has its data in another file, or was marked as corrupt.
func InspectImage(data []byte) (*InspectedImage, error) {
	header, err := parseHeader(data)
	if err != nil {
		return nil, err
	}
	image := &InspectedImage{ImageHeader: *header}
	if header.QCOW2 {
		image.CapacityBytes = binary.BigEndian.Uint64(data[qcow2CapacityAt:])
	}
	return image, nil
}
