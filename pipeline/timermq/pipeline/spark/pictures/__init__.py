"""Pictures as SVG, drawn from a few numbers: plots, stacked bars, heat maps."""

from .heat_map import HeatRow as HeatRow
from .heat_map import heat_map as heat_map
from .plot import Axis as Axis
from .plot import Series as Series
from .plot import even_ticks as even_ticks
from .plot import plot as plot
from .plot import ticks_of_ten as ticks_of_ten
from .stacked_bars import Layer as Layer
from .stacked_bars import stacked_bars as stacked_bars
from .svg import BLUE as BLUE
from .svg import COLOURS as COLOURS
from .svg import GREY as GREY
from .svg import ORANGE as ORANGE
from .svg import short_number as short_number
