// Package zktest has what the tests of the ZooKeeper packages need: a connection in memory, and the
// encoding of ZooKeeper's protocol.
package zktest

import "encoding/binary"

// Reader decodes what a client sends.
type Reader struct{ Data []byte }

func (r *Reader) take(n int) []byte {
	b := r.Data[:n]
	r.Data = r.Data[n:]
	return b
}

func (r *Reader) Bool() bool     { return r.take(1)[0] != 0 }
func (r *Reader) Int32() int32   { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *Reader) Int64() int64   { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *Reader) Bytes() []byte  { return r.take(max(int(r.Int32()), 0)) }
func (r *Reader) String() string { return string(r.Bytes()) }

func (r *Reader) List() (list []string) {
	for range r.Int32() {
		list = append(list, r.String())
	}
	return list
}

// ACL reads a list of permissions, schemes and ids.
func (r *Reader) ACL() {
	for range r.Int32() {
		r.Int32()
		_ = r.String()
		_ = r.String()
	}
}

// Writer encodes what a server sends.
type Writer struct{ Data []byte }

func (w *Writer) Bool(b bool) {
	if b {
		w.Data = append(w.Data, 1)
		return
	}
	w.Data = append(w.Data, 0)
}
func (w *Writer) Int32(n int32)   { w.Data = binary.BigEndian.AppendUint32(w.Data, uint32(n)) }
func (w *Writer) Int64(n int64)   { w.Data = binary.BigEndian.AppendUint64(w.Data, uint64(n)) }
func (w *Writer) String(s string) { w.Int32(int32(len(s))); w.Data = append(w.Data, s...) }

// Packet is data after its length.
func Packet(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}
