"""New code of the patch `no-hidden-render`."""


def no_opengl(env, image, log_image):
    own_camera = isinstance(env, str) and env.startswith(('manip_', 'rodent_'))
    if not (image or log_image or own_camera):
        os.environ.setdefault('MUJOCO_GL', 'disable')


def import_manipulation():
    from dm_control import manipulation


def import_rodent():
    from dm_control.locomotion.examples import basic_rodent_2020


def import_suite():
    from dm_control import suite


def keep_log_image(self, log_image):
    self._log_image = log_image


def space_of_picture(self, spaces, key, SPACE):
    if self._image or self._log_image:
        spaces[key] = SPACE


def render_picture(self, obs, key, PICTURE):
    if self._image or self._log_image:
        obs[key] = PICTURE
