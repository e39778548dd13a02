"""What this project uses of lz4.frame, which ships no types."""

class LZ4FrameDecompressor:
    eof: bool
    def decompress(self, data: bytes, max_length: int = ...) -> bytes: ...

def compress(data: bytes) -> bytes: ...
