"""How our pictures look: legible on a light and on a dark page."""

WIDTH = 720
STYLE = """\
text { font: 13px -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 }
.note { font-size: 12px; fill: #57606a }
.other { fill: #8c959f }
.own { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .note { fill: #9198a1 }
  .other { fill: #656c76 }
  .own { fill: #3fb950 }
}"""
